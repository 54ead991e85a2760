"""The cells of the matrix: every engine × {sync, async}. The tests are in `fencelock.testing.conformance`."""

from fencelock.testing.conformance.cells import (
    FACES as FACES,
)
from fencelock.testing.conformance.cells import (
    Actor as Actor,
)
from fencelock.testing.conformance.cells import (
    Cell as Cell,
)
from fencelock.testing.conformance.cells import (
    OpenCell as OpenCell,
)
from fencelock.testing.conformance.cells import (
    act as act,
)
from fencelock.testing.conformance.cells import (
    answered as answered,
)
from fencelock.testing.conformance.cells import (
    kept_by as kept_by,
)
from fencelock.testing.conformance.cells import (
    lasting as lasting,
)
from fencelock.testing.conformance.cells import (
    queued as queued,
)
from tests.effort import effort

ENGINES = (
    "memory",
    "sqlite",
    "redis",
    "redis+cluster",
    "redlock",
    "etcd",
    "zookeeper",
    "postgresql",
    "postgresql+advisory",
    "mysql",
    "mysql+getlock",
    "http+redis",
    # The same client code, in front of other engines.
    *effort((), ("http+sqlite", "http+etcd", "http+postgresql")),
)
CELLS = [(engine, face) for engine in ENGINES for face in FACES]
