"""A worker whose Redis numbers its tickets by a clock that is set back now and then."""

import fencelock.engines.redis
from fencelock.engines.redis.scripts import ENTER
from fencelock.engines.resp.script import Script, assembled
from fencelock.torture.real.worker import main

TRUE = "local my_fence = last < now and now or last + 1"
PLANTED = "local my_fence = now - (now % 5) * 1000000"

if __name__ == "__main__":
    text = assembled(fencelock.engines.redis.__name__, "record", "enter")
    assert TRUE in text
    vars(ENTER).update(vars(Script(text.replace(TRUE, PLANTED))))
    main()
