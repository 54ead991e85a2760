"""Wait for conditions: a test says what it waits for, instead of sleeping and hoping."""

from fencelock.testing.conformance.waiting import PATIENCE as PATIENCE
from fencelock.testing.conformance.waiting import InVain as InVain
from fencelock.testing.conformance.waiting import eventually as eventually
from fencelock.testing.conformance.waiting import soon as soon
from fencelock.testing.conformance.waiting import within as within
