"""Compare topics whose records were repartitioned.

Both sides must hold the same records, and the records of each key in the same order. Runs in tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.compare.differences import Leniency, Tally, classify
from kafkeep.compare.digest import KEY, NOTHING, DigestRows, align, digest_rows, join_rows
from kafkeep.compare.stream import StreamComparison
from kafkeep.numba_setup import Int64s

RECORDS_PER_SHARE = 1 << 20
"""The number of records of each side in memory, at 56 bytes each."""


@dataclass(frozen=True, slots=True)
class KeyShare:
    """One of ``count`` parts of all keys."""

    number: int
    count: int

    def wants(self, rows: DigestRows) -> NDArray[np.bool_]:
        """Return a mask of the records in this share: by key, or by digest without a key."""
        keys = rows.parts[:, KEY]
        by = np.where(keys == NOTHING, rows.digests, keys)
        wanted: NDArray[np.bool_] = by % np.uint64(self.count) == np.uint64(self.number)
        return wanted


def shares_for(records: int) -> list[KeyShare]:
    """Split the keys into shares whose records fit into memory."""
    count = max(1, -(-records // RECORDS_PER_SHARE))
    return [KeyShare(number, count) for number in range(count)]


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """The records of one side, sorted by key; the records of a key keep their order."""

    rows: DigestRows
    partitions: Int64s
    starts: dict[int, tuple[int, int]]

    @classmethod
    def collect(
        cls,
        partitions: Iterable[tuple[int, Iterator[pa.RecordBatch]]],
        fields: Collection[str],
        share: KeyShare,
    ) -> _Held:
        pieces, numbers = [], []
        for number, batches in partitions:
            for batch in batches:
                rows = digest_rows(batch, fields)
                if share.count > 1:
                    rows = rows.pick(share.wants(rows))
                if len(rows):
                    pieces.append(rows)
                    numbers.append(np.full(len(rows), number, dtype=np.int64))
        whole = join_rows(pieces)
        several = np.concatenate(numbers) if numbers else np.empty(0, dtype=np.int64)
        order = np.argsort(whole.parts[:, KEY], kind="stable")
        keys, starts = np.unique(whole.parts[order, KEY], return_index=True)
        ends = [*starts[1:].tolist(), len(order)][: len(starts)]
        spans = dict(zip(keys.tolist(), zip(starts.tolist(), ends, strict=True), strict=True))
        return cls(whole.pick(order), several[order], spans)

    def count(self, key: int) -> int:
        """Return the number of records with a key."""
        start, end = self.starts.get(key, (0, 0))
        return end - start

    def of(self, key: int) -> tuple[DigestRows, bool]:
        """Return the records of a key, and whether they are all in one partition."""
        start, end = self.starts.get(key, (0, 0))
        one = end - start < 2 or bool((np.diff(self.partitions[start:end]) == 0).all())
        return self.rows.pick(slice(start, end)), one


def compare_keys(
    archive: Iterable[tuple[int, Iterator[pa.RecordBatch]]],
    target: Iterable[tuple[int, Iterator[pa.RecordBatch]]],
    fields: Collection[str],
    share: KeyShare,
    leniency: Leniency,
) -> tuple[int, int, int, Tally]:
    """Return the number of records in both, in the archive and in the target, and the differences.

    Records without a key, and keys that are in several archived partitions, have no defined order:
    they are compared in any order.
    """
    ours = _Held.collect(archive, fields, share)
    theirs = _Held.collect(target, fields, share)
    tally = Tally()
    suspect = _suspects(ours, theirs)
    matched = len(ours.rows) - sum(ours.count(key) for key in suspect)
    for key in sorted(suspect):
        mine, ordered = ours.of(key)
        other, together = theirs.of(key)
        if key == NOTHING or not ordered or not together:
            mine, other = _sorted(mine), _sorted(other)
        if len(mine) == len(other) and bool((mine.digests == other.digests).all()):
            matched += len(mine)
            continue
        compared = _part(mine, other)
        matched += compared.matched
        tally.join(classify(compared, lambda rows=mine: iter((rows,)), leniency))  # type: ignore[misc]
    return matched, len(ours.rows), len(theirs.rows), tally


def _suspects(ours: _Held, theirs: _Held) -> set[int]:
    """Return the keys whose records are not the same in the same order."""
    mine, other = ours.rows.parts[:, KEY], theirs.rows.parts[:, KEY]
    if len(mine) == len(other) and bool((mine == other).all()):
        return set(mine[ours.rows.digests != theirs.rows.digests].tolist())
    return {*ours.starts, *theirs.starts}


def _sorted(rows: DigestRows) -> DigestRows:
    return rows.pick(np.argsort(rows.digests, kind="stable"))


def _part(ours: DigestRows, theirs: DigestRows) -> StreamComparison:
    found = StreamComparison()
    at_a = at_b = 0
    for a, b, size in align(ours.digests, theirs.digests):
        found.lacking.add(ours.pick(slice(at_a, a)), found.matched)
        found.added.add(theirs.pick(slice(at_b, b)), found.matched)
        at_a, at_b = a + size, b + size
        found.matched += size
    found.lacking.add(ours.pick(slice(at_a, None)), found.matched)
    found.added.add(theirs.pick(slice(at_b, None)), found.matched)
    return found
