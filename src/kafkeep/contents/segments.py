"""The batches of a segment object that are wanted, each checked. In tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.contents.ahead import Ranges
from kafkeep.contents.spool import HINT, lost_with
from kafkeep.errors import DamagedError, KeyMissingError
from kafkeep.kafka.batch import Batches
from kafkeep.kafka.segment import read_segment


def iter_segment(
    store: Ranges,
    entry: Entry,
    range: OffsetRange,
    *,
    aborted: bool = False,
    from_ms: int | None = None,
    until_ms: int | None = None,
) -> Iterator[Batches]:
    """Yield the batches that may hold what is asked for; aborted ones only on request.

    Batches at the edge of ``range`` come whole. DamagedError, after more than one try, names the
    object and its offsets.
    """
    try:
        for batches in read_segment(
            lambda start, end: store.get_range(entry.key, start, end),
            entry.size_bytes,
            entry.index,
            range,
            from_ms=from_ms,
            until_ms=until_ms,
            name=entry.key,
        ):
            yield batches if aborted else committed(batches, entry.aborted)
    except KeyMissingError as error:
        raise DamagedError(f"{entry.key} is missing: {lost_with(entry)}", hint=HINT) from error
    except DamagedError as error:
        raise DamagedError(
            f"{entry.key}: {error.message}; {lost_with(entry)}", hint=error.hint or HINT
        ) from error


def committed(batches: Batches, aborted: Sequence[OffsetRange]) -> Batches:
    """Leave out the batches of aborted transactions."""
    if not aborted:
        return batches
    keep = np.ones(len(batches), dtype=np.bool_)
    for stretch in aborted:
        keep &= (batches.base_offsets < stretch.start) | (batches.base_offsets >= stretch.end)
    return batches if keep.all() else batches.select(keep)
