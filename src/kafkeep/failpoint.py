"""Failpoints: named places where a test can make this process die, fail or wait.

A test arms them with ``arm("commit.after:exit@3;object.before:raise@p=0.1")``, or for another
process with the variable ``KAFKEEP_FAILPOINT``. The ``kafkeep`` command and the daemon of Spark's
local workers read that variable when they start. Importing this module arms nothing.
``KAFKEEP_SEED`` makes random choices repeatable. The syntax is ``name:action[@when]``:

=============  ===========================================================
``exit``       the process ends at once with status 137, as after kill -9
``raise``      TransientError: nothing was sent, a retry is safe
``drop``       UnknownOutcomeError: the request may have taken effect
``sleep=MS``   wait this many milliseconds
``hold``       wait until the file that ``KAFKEEP_FAILPOINT_GATE`` names exists
``@3``         only the third time the failpoint is reached
``@p=0.1``     each time with this probability
=============  ===========================================================

Each action appends the name of its failpoint to the file that ``KAFKEEP_FAILPOINT_TRACE`` names.
So a test can distinguish a failpoint that was never reached from one that was survived. ``PLACES``
lists all failpoints. Other names are refused, and a test checks that some test dies at each one.
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
    "open.before": "the next epoch is not taken yet: the log is unchanged",
    "open.after": "the epoch is taken: an open intent of the last writer must be finished",
    "intent.before": "ranges are planned, nothing is written: the next run may plan others",
    "intent.after": "the intent is in the log: the next writer finishes it first",
    "commit.before": "objects are stored, no commit names them: the next run adopts them",
    "commit.after": "the commit is stored, its writer has no answer: it is not repeated",
    "checkpoint.before": "a checkpoint is due: the log alone is enough",
    "checkpoint.tables": "tables are stored, no root names them: they are adopted or rewritten",
    "checkpoint.after": "the checkpoint is stored: opening the log uses it",
    # A backup
    "snapshot.after": "settings and group offsets are in no commit: they are read again",
    "task.start": "the task has not started its work",
    "object.before": "an object is complete but not created: nothing of it is visible",
    "object.part": "a part is uploaded: the object is invisible, and gc removes the upload",
    "object.after": "an object is stored, no commit names it: it is adopted, or never read",
    "object.adopted": "an object of an earlier attempt was adopted and may have no tags",
    "dead_letters.before": "bad records are not reported, offsets not archived: read again",
    "dead_letters.after": "bad records are reported, offsets not archived: reported again",
    "schemas.stored": "schemas of a registry are stored, no commit names them: they are adopted",
    "group.before": "the connector's group is behind the log: the next run updates it",
    "group.after": "the connector's group matches the log",
    # A restore
    "restore.prepared": "the document names the topics to create: they belong to this restore",
    "restore.schemas": "schemas are registered, no document says so: the next run finds them",
    "schemas.importing": "some subjects are in import mode: the next run resets them",
    "schemas.register": "some schemas are registered, the next is not: the next run keeps them",
    "restore.created": "topics exist, no document names producer ids: the next run gets new ones",
    "restore.documented": "the document has topics and producer ids: writing may begin",
    "request.before": "a batch is not sent: the end offset of the target shows where to resume",
    "request.after": "a batch is written, its writer has no answer: it is not written again",
    "restore.written": "all records are written, temporary settings apply: they are reset",
    "restore.reset": "settings are reset, the document says unfinished: nothing is written",
    "restore.done": "the document says that the restore is finished",
    "groups.recorded": "the previous offsets of groups are recorded, and not changed yet",
    "groups.halfway": "offsets of a group are set, others are not deleted yet: all are set again",
    "groups.committed": "the offsets of a group are set, the next may not be: all are set again",
    "groups.returned": "a group has its previous offsets, the next may not: all are reset again",
    "exact.begun": "transactions of the last attempt are fenced",
    "exact.trim": "filler records are written before the first offset",
    "exact.trimmed": "the filler is deleted: the target begins at its first offset",
    "exact.mark": "a hole is not filled: the target ends before it",
    "exact.marked": "a transaction has ended, its marker may come later: the next run waits for it",
    # A following restore
    "follow.planned": "a cycle is planned, not recorded: the next run may plan another",
    "follow.opened": "a cycle is recorded: the next run restores this one",
    "follow.written": "a cycle is restored, not recorded: its document says that it is finished",
    "follow.finished": "a cycle is recorded as finished: the next one begins after it",
    # Retention
    "retention.recorded": "the rule is recorded, the bucket may lack it: the next start sets it",
    "retention.removed": "the bucket has no rule, the record says it has: the next run corrects it",
    # The service
    "journal.before": "a change of a connector is not stored yet",
    "journal.after": "the change is stored, its caller has no answer: it is not repeated",
    "verification.read": "an archive is verified, nothing says so: it is verified again",
    "schedule.created": "a scheduled run is a draft: the next leader starts it",
    "schedule.started": "a scheduled run is started, its schedule does not say so: it runs once",
}
"""Every failpoint, with the state that a process which dies there leaves behind."""


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
    """Run the armed action of ``name``, if any. Costs one dictionary test when nothing is armed."""
    if _arms:
        _pass(name)


def arm(spec: str, *, seed: int | None = None) -> None:
    """Replace all armed failpoints by those of ``spec``; an empty ``spec`` disarms all."""
    parsed = dict(_parse(part.strip()) for part in spec.split(";") if part.strip())
    _arms.clear()
    _arms.update(parsed)
    _chances.seed(seed)


def arm_from_environment() -> None:
    """Arm the failpoints in ``KAFKEEP_FAILPOINT``; called once, when a program starts."""
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
            f"KAFKEEP_FAILPOINT is invalid at {part!r}: {error}",
            hint="Write it as name:exit@3;other:drop@p=0.1: exit, raise, drop, hold or sleep=MS.",
        ) from error
    return name, _Arm(action, sleep_ms, at_hit, chance)
