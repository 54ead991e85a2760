"""The simulation of leases that end by themselves: some with a `max_hold`, some with `renew=False`.

`python -m fencelock.torture.bounded --seeds 0-999` runs many schedules, as `fencelock.torture.simulate` does.
"""

from __future__ import annotations

import sys

from fencelock.torture.history import Attempt
from fencelock.torture.simulate import Simulation, main
from fencelock.torture.workers import Worker


class BoundedWorker(Worker):
    """Asks for such leases most of the time."""

    def bound(self, attempt: Attempt) -> None:
        random = self.random
        attempt.renew = random.random() < 0.6
        if random.random() < 0.5:
            attempt.max_hold = attempt.ttl * random.choice((0.05, 0.3, 0.7, 1.0, 3.0))


class BoundedSimulation(Simulation):
    """One world, made from a seed, with leases that end by themselves."""

    module = "fencelock.torture.bounded"
    worker = BoundedWorker


if __name__ == "__main__":
    sys.exit(main(kind=BoundedSimulation))
