"""Named places where a test can make this process die, fail or wait.

``KAFKEEP_FAILPOINT="commit.after:exit@3;object.before:raise@p=0.1"`` arms them when the process
starts; ``KAFKEEP_SEED`` makes the chances repeat. An arm is ``name:action[@when]``:

=============  ===========================================================
``exit``       the process ends at once with status 137, as after kill -9
``raise``      TransientError: nothing happened, it may be tried again
``drop``       UnknownOutcomeError: what was sent may have happened
``sleep=MS``   wait so many milliseconds
``@3``         only the third time the place is passed
``@p=0.1``     each time with this chance
=============  ===========================================================

What was done is written, a line each, to the file that ``KAFKEEP_FAILPOINT_TRACE`` names, so that a
test can tell a place that never came from one that was survived.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass

from kafkeep.errors import TransientError, UnknownOutcomeError, UsageError

_ACTIONS = ("exit", "raise", "drop")


@dataclass(slots=True)
class _Arm:
    action: str
    sleep_ms: int
    at_hit: int | None
    chance: float | None
    hits: int = 0

    def is_due(self, chances: random.Random) -> bool:
        self.hits += 1
        if self.at_hit is not None:
            return self.hits == self.at_hit
        return self.chance is None or chances.random() < self.chance


_arms: dict[str, _Arm] = {}
_chances = random.Random()


def failpoint(name: str) -> None:
    """Do what ``name`` was armed with; nothing, at the cost of one look, when none is armed."""
    if _arms:
        _pass(name)


def arm(spec: str, *, seed: int | None = None) -> None:
    """Replace all armed places by those of ``spec``; an empty one disarms all."""
    parsed = dict(_parse(part.strip()) for part in spec.split(";") if part.strip())
    _arms.clear()
    _arms.update(parsed)
    _chances.seed(seed)


def _pass(name: str) -> None:
    found = _arms.get(name)
    if found is None or not found.is_due(_chances):
        return
    _trace(name)
    if found.action == "exit":
        os._exit(137)
    if found.action == "raise":
        raise TransientError(f"failpoint {name}")
    if found.action == "drop":
        raise UnknownOutcomeError(f"failpoint {name}")
    time.sleep(found.sleep_ms / 1000)


def _trace(name: str) -> None:
    path = os.environ.get("KAFKEEP_FAILPOINT_TRACE")
    if path:
        with open(path, "a", encoding="utf-8") as trace:
            trace.write(name + "\n")


def _parse(part: str) -> tuple[str, _Arm]:
    name, _, rest = part.partition(":")
    action, _, when = rest.partition("@")
    try:
        sleep_ms = int(action.removeprefix("sleep=")) if action.startswith("sleep=") else -1
        if not name or (sleep_ms < 0 and action not in _ACTIONS):
            raise ValueError(f"unknown action {action!r}")
        chance = float(when.removeprefix("p=")) if when.startswith("p=") else None
        at_hit = int(when) if when and chance is None else None
    except ValueError as error:
        raise UsageError(
            f"KAFKEEP_FAILPOINT is not understood at {part!r}: {error}",
            hint="Write it as name:exit@3;other:raise@p=0.1 with exit, raise, drop or sleep=MS.",
        ) from error
    return name, _Arm(action, sleep_ms, at_hit, chance)


def _arm_from_environment() -> None:
    spec = os.environ.get("KAFKEEP_FAILPOINT", "")
    if spec:
        seed = os.environ.get("KAFKEEP_SEED")
        arm(spec, seed=int(seed) if seed else None)


_arm_from_environment()
