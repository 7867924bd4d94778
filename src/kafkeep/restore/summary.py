"""The summary of a restore, and progress while its tasks run. On the driver."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafkeep.errors import KafkeepError
from kafkeep.restore.topic_settings import HeldBack

NEWER = "the archive has newer commits that this finished restore does not include"


@dataclass(slots=True)
class RestoreSummary:
    """Totals of one run; a resumed restore counts what this run wrote."""

    records: int = 0
    bytes: int = 0
    objects: int = 0
    commit: int = -1
    topics: dict[str, int] = field(default_factory=dict)
    """Target topic → records written by this run."""
    already_there: int = 0
    """Records an earlier run of the same restore had written."""
    held_back: list[HeldBack] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Objects left out, whole or in part, because they are missing or damaged."""
    lost_offsets: list[dict[str, Any]] = field(default_factory=list)
    """The offsets that they held, if there is a log."""
    gaps: list[dict[str, Any]] = field(default_factory=list)
    """Offsets that were never archived, in the topics restored."""
    missing: list[str] = field(default_factory=list)
    """What the objects do not hold of their records."""
    filled: int = 0
    """Offsets filled before the first record, or with tombstones."""
    holes: int = 0
    """Offsets filled with empty transactions."""
    groups: dict[str, int] = field(default_factory=dict)
    """Consumer group → partitions whose offset was set."""
    groups_left_out: list[str] = field(default_factory=list)
    newer: list[str] = field(default_factory=list)
    """Topics of a finished restore that have newer commits."""
    schemas: dict[str, int] = field(default_factory=dict)
    """Versions registered and found in a schema registry; ids rewritten and unknown."""
    schema_notes: list[str] = field(default_factory=list)
    """Differences between the archived and the restored schemas."""
    id: str = ""
    seconds: float = 0.0
    start_seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """3 when something differs from the source, else 0."""
        lacks = self.held_back or self.lost or self.gaps or self.missing or self.groups_left_out
        return 3 if lacks or self.newer or self.unknown_ids or self.schema_notes else 0

    @property
    def left_out(self) -> list[str]:
        """A sentence for each loss of missing or damaged objects."""
        described = {o["key"] for o in self.lost_offsets}
        return [
            *(f"left out: {key}" for key in self.lost if key not in described),
            *(
                f"left out: {o['topic']}-{o['partition']}, offsets {o['start']} to {o['end'] - 1}: "
                f"{o['key']} is missing or damaged"
                for o in self.lost_offsets
            ),
        ]

    @property
    def unknown_ids(self) -> list[str]:
        """A sentence for keys or values with schema ids that are not archived."""
        return [
            f"{count:,} {side} start like a schema id that is not in the archive: they were "
            "not changed"
            for side in ("keys", "values")
            if (count := self.schemas.get(f"unknown_{side}", 0))
        ]

    @property
    def warnings(self) -> list[str]:
        """A sentence for everything that differs from the source."""
        return [
            *self.left_out,
            *self.missing,
            *self.groups_left_out,
            *(f"{topic}: {NEWER}" for topic in self.newer),
            *self.unknown_ids,
            *(f"the schema registry: {note}" for note in self.schema_notes),
            *(f"{h.topic}: {h.key}={h.value} was not put back: {h.reason}" for h in self.held_back),
            *(
                f"{g['topic']}-{g['partition']}: offsets {g['start']} to {g['end'] - 1} are not in "
                f"the archive: {g['reason']}"
                for g in self.gaps
            ),
        ]

    def lose(self, offsets: Iterable[Mapping[str, Any]]) -> None:
        """Replace the losses by those of an earlier run."""
        self.lost_offsets = [dict(one) for one in offsets]
        self.lost = sorted({one["key"] for one in self.lost_offsets} or self.lost)

    def count_ids(self, counts: Mapping[str, int]) -> None:
        """Add what a task did to schema ids."""
        for name, count in counts.items():
            self.schemas[name] = self.schemas.get(name, 0) + count

    def to_json(self) -> dict[str, Any]:
        """Return the document that ``--output json`` ends with."""
        return {
            "message_type": "summary",
            "id": self.id,
            "records": self.records,
            "bytes": self.bytes,
            "objects": self.objects,
            "commit": self.commit,
            "topics": self.topics,
            "already_there": self.already_there,
            "filled": self.filled,
            "holes": self.holes,
            "groups": self.groups,
            "groups_left_out": self.groups_left_out,
            "newer": self.newer,
            "schemas": self.schemas,
            "schema_notes": self.schema_notes,
            "gaps": self.gaps,
            "lost": self.lost,
            "lost_offsets": self.lost_offsets,
            "missing": self.missing,
            "held_back": [
                {
                    "topic": h.topic,
                    "key": h.key,
                    "value": h.value,
                    "reason": h.reason,
                    "command": h.command,
                }
                for h in self.held_back
            ],
            "seconds": round(self.seconds, 3),
            "start_seconds": round(self.start_seconds, 3),
        }


POLL_SECONDS = 0.5


@contextmanager
def watch(measure: Callable[[], int], report: Callable[[int], None]) -> Iterator[None]:
    """Call ``report`` with the result of ``measure`` twice a second; errors are ignored."""
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(POLL_SECONDS):
            try:
                report(measure())
            except KafkeepError:
                continue  # the tasks report errors

    thread = threading.Thread(target=poll, name="restore-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
