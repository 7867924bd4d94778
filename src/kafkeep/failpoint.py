"""Named places where a test can make this process die, fail or wait.

A test arms them with ``arm("commit.after:exit@3;object.before:raise@p=0.1")``, or for a process of
its own with the variable ``KAFKEEP_FAILPOINT``. The ``kafkeep`` command and the daemon of Spark's
local workers read that variable when they start; importing this module arms nothing.
``KAFKEEP_SEED`` makes the chances repeat. An arm is ``name:action[@when]``:

=============  ===========================================================
``exit``       the process ends at once with status 137, as after kill -9
``raise``      TransientError: nothing happened, it may be tried again
``drop``       UnknownOutcomeError: what was sent may have happened
``sleep=MS``   wait so many milliseconds
``hold``       wait until the file that ``KAFKEEP_FAILPOINT_GATE`` names is there
``@3``         only the third time the place is passed
``@p=0.1``     each time with this chance
=============  ===========================================================

Each action adds the name of its place to the file that ``KAFKEEP_FAILPOINT_TRACE`` names, so that
a test can tell a place that was never reached from one that was survived. ``PLACES`` lists all of
them. A name that it does not list is refused, and a test makes sure that a test dies at each.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from kafkeep.errors import TransientError, UnknownOutcomeError, UsageError

_ACTIONS = ("exit", "raise", "drop", "hold")

PLACES: Mapping[str, str] = {
    # The log, on the driver
    "open.before": "the next epoch is about to be taken: the log is as it was",
    "open.after": "the epoch is taken: an open intent of the last writer is still to be finished",
    "intent.before": "ranges are planned, nothing is written: others may be planned next",
    "intent.after": "what will be written is in the log: the next writer finishes it first",
    "commit.before": "objects are stored, the log does not name them: they are adopted",
    "commit.after": "the commit is there, its writer may not know: it is not made again",
    "checkpoint.before": "a checkpoint is due: the log alone is enough",
    "checkpoint.tables": "tables are there that no root names: they are written again, or adopted",
    "checkpoint.after": "the checkpoint is there: opening takes it",
    # A backup
    "look.after": "settings and group offsets were read, and are in no commit: they are read again",
    "task.start": "a task has done nothing",
    "object.before": "an object is complete but for its name: nothing of it is visible",
    "object.part": "a part of an object is there: the upload is invisible, and left to gc",
    "object.after": "an object is there that no commit names: it is adopted, or never read",
    "object.adopted": "an object of an earlier attempt was found and may have no tags yet",
    "letters.before": "bad records are not reported, their offsets not archived: read again",
    "letters.after": "bad records are reported, their offsets not archived: reported again",
    "schemas.stored": "a registry's schemas are stored, no commit names them: they are adopted",
    "group.before": "the log is ahead of the connector's group: the next run tells it",
    "group.after": "the group says what the log says",
    # A restore
    "restore.prepared": "the document says which topics will be made: they are ours if they appear",
    "restore.schemas": "schemas are in the registry, and no document says so: they are found there",
    "schemas.importing": "some subjects are open for given ids: they are closed by the next",
    "schemas.register": "some schemas are there, the next is not: those that are there stay",
    "restore.created": "topics are there, and producer ids no document names: others are taken",
    "restore.documented": "the document has topics and producer ids: writing may begin at any time",
    "request.before": "the target's end says where to go on",
    "request.after": "a batch is in the target, its writer may not know: it is not written again",
    "restore.written": "all records are there, the settings of writing hold: they are put back",
    "restore.settled": "settings are back, the document says it is under way: nothing is written",
    "restore.done": "the document says that all is done",
    "groups.noted": "what groups had committed is noted, and not changed yet",
    "groups.committed": "a group was moved, the next may not be: all are moved again",
    "groups.returned": "a group was put back, the next may not be: all are put back again",
    "exact.begun": "transactions of the last attempt are shut out",
    "exact.trim": "the filler is there, and records in front of the first offset",
    "exact.trimmed": "the target begins at its first offset",
    "exact.mark": "a hole is open: the target ends in front of it",
    "exact.marked": "a transaction has ended, its marker may come later: it is waited for",
    # A restore that goes on
    "follow.planned": "a round is planned and not written down: another may be planned",
    "follow.opened": "a round is written down: it is this one that is restored",
    "follow.written": "a round is restored, and not noted: its document says that it is done",
    "follow.finished": "a round is noted: the next begins behind it",
    # Retention
    "retention.recorded": "the log's folder has a rule, the bucket may not: the next start sets it",
    "retention.removed": "the bucket has no rule, the log's folder says it has: the next ends it",
    # The service
    "journal.before": "a change of a connector is about to be made: it is not there",
    "journal.after": "the change is there, its caller may not know: it is not made twice",
}
"""Every place, and what someone who dies there leaves to the next."""


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
    """Do what ``name`` is armed with. Costs one test of a dictionary when nothing is armed."""
    if _arms:
        _pass(name)


def arm(spec: str, *, seed: int | None = None) -> None:
    """Replace all armed places by those of ``spec``; an empty ``spec`` disarms all."""
    parsed = dict(_parse(part.strip()) for part in spec.split(";") if part.strip())
    _arms.clear()
    _arms.update(parsed)
    _chances.seed(seed)


def arm_from_environment() -> None:
    """Arm what ``KAFKEEP_FAILPOINT`` says; called once, when a program starts."""
    spec = os.environ.get("KAFKEEP_FAILPOINT", "")
    if spec:
        seed = os.environ.get("KAFKEEP_SEED")
        arm(spec, seed=int(seed) if seed else None)


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
    if found.action == "hold":
        _hold()
    else:
        time.sleep(found.sleep_ms / 1000)


def _hold() -> None:
    """Wait until the test creates the gate file."""
    gate = os.environ["KAFKEEP_FAILPOINT_GATE"]
    while not os.path.exists(gate):
        time.sleep(0.02)


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
        if sleep_ms < 0 and action not in _ACTIONS:
            raise ValueError(f"unknown action {action!r}")
        if name not in PLACES:
            near = get_close_matches(name, PLACES, 1)
            raise ValueError(f"there is no {name!r}" + (f", only {near[0]!r}" if near else ""))
        chance = float(when.removeprefix("p=")) if when.startswith("p=") else None
        at_hit = int(when) if when and chance is None else None
    except ValueError as error:
        raise UsageError(
            f"KAFKEEP_FAILPOINT is not understood at {part!r}: {error}",
            hint="Write it as name:exit@3;other:drop@p=0.1: exit, raise, drop, hold or sleep=MS.",
        ) from error
    return name, _Arm(action, sleep_ms, at_hit, chance)
