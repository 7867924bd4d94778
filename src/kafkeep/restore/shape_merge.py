"""Records of several partitions brought into one order, by time. In tasks.

A record's rank is the latest time up to it in its partition: each partition stays in its order, and
of equal ranks the lower partition comes first. The order follows from the records alone, not from
how they are cut into blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kafkeep.kafka.walk import Walked
from kafkeep.kernel import Int64s, view_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some records in order, with their ranks and the target partition of each."""

    rows: Walked
    ranks: Int64s
    targets: Int64s
    codec: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, which: slice) -> Block:
        """Return some of the records in a row."""
        return Block(self.rows.select(which), self.ranks[which], self.targets[which], self.codec)


def merge(sources: Sequence[Iterator[Block]]) -> Iterator[Block]:
    """Yield the records of all sources in one order; holds one block of each."""
    hands: list[Block | None] = [None] * len(sources)
    left = set(range(len(sources)))
    while True:
        for number in sorted(left):
            if hands[number] is None:
                hands[number] = next(sources[number], None)
                if hands[number] is None:
                    left.discard(number)
        if not left:
            return
        yield _join([part for part in _take(hands, left) if len(part)])


def _take(hands: list[Block | None], left: set[int]) -> list[Block]:
    """Take what comes before anything that is not at hand yet: at least one whole block."""
    at_hand = {number: block for number in left if (block := hands[number]) is not None}
    bound, last = min((int(block.ranks[-1]), number) for number, block in at_hand.items())
    taken = []
    for number, block in sorted(at_hand.items()):
        side = "right" if number <= last else "left"
        count = int(np.searchsorted(block.ranks, bound, side=side))  # type: ignore[call-overload]
        taken.append(block.part(slice(0, count)))
        hands[number] = block.part(slice(count, None)) if count < len(block) else None
    return taken


def _join(parts: list[Block]) -> Block:
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([part.ranks for part in parts]), kind="stable")
    fields, buffers, base = [], [], 0
    for part in parts:
        start, end = int(part.rows.fields[0]), int(part.rows.ends[-1])
        buffers.append(part.rows.buffer[start:end])
        fields.append((part.rows.fields + (base - start), part.rows.ends + (base - start)))
        base += end - start

    def joined(columns: list[Int64s]) -> Int64s:
        found: Int64s = np.concatenate(columns)[order]
        return found

    rows = Walked(
        view_bytes(np.concatenate(buffers)),
        joined([part.rows.offsets for part in parts]),
        joined([part.rows.timestamps for part in parts]),
        joined([part.rows.timestamp_types for part in parts]),
        joined([starts for starts, _ in fields]),
        joined([ends for _, ends in fields]),
        parts[0].rows.totals,
    )
    codec = max(part.codec for part in parts)
    return Block(
        rows,
        joined([part.ranks for part in parts]),
        joined([part.targets for part in parts]),
        codec,
    )
