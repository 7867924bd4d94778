"""Tombstones that an exact restore put where there was no record: counted, and not compared.

There may be millions of them. An archive has some too, if its topic was such a target once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.care.against.verdict import MOST_PLACES, Place, Tally, Verdict
from kafkeep.kafka.layout import RESERVED_KEY


class Fillers:
    """Takes fillers out of a stream, and remembers where the first of them stood."""

    def __init__(self) -> None:
        self.count = 0
        self.offsets: list[int] = []

    def left_out(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the other records."""
        # pa.scalar would import pandas, which takes half a second.
        key = pa.array([RESERVED_KEY], pa.binary())[0]
        for batch in batches:
            named = pc.fill_null(pc.equal(batch.column("key"), key), False)
            filler = np.asarray(pc.and_(named, batch.column("value").is_null()))
            if not filler.any():
                yield batch
                continue
            self.count += int(filler.sum())
            lacking = MOST_PLACES - len(self.offsets)
            if lacking > 0:
                places = pa.array(np.flatnonzero(filler)[:lacking])
                self.offsets.extend(batch.column("offset").take(places).to_pylist())
            if not filler.all():
                yield batch.take(pa.array(np.flatnonzero(~filler)))


def judge_fillers(archive: Fillers, target: Fillers, tally: Tally) -> None:
    """Tell fillers that only one side has; which of several they are does not matter."""
    more = target.count - archive.count
    if more > 0:
        tally.add(Verdict.FILLER, count=more)
        for offset in target.offsets:
            tally.add_place(Verdict.FILLER, Place(None, offset))
    elif more < 0:
        tally.add(Verdict.LOST, count=-more)
        for offset in archive.offsets:
            tally.add_place(Verdict.LOST, Place(offset, None))
