"""The growth of a sink's archive, from its log.

The log comes from the catalog, which keeps it in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.archive.entry_tables import TableInfo
from kafkeep.archive.read_commits import decode_stored, read_stored_commit
from kafkeep.connect.catalog.archives.archives import ArchiveLog, ArchivePlace, Archives
from kafkeep.connect.connectors.families import find_family
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.jobs.sink import read_sink
from kafkeep.connect.model import RestError
from kafkeep.connect.service.overview import GrowthPoint, downsample
from kafkeep.errors import NoSuchArchiveError

_TIMES_KEPT = 1000


def log_of(
    archives: Archives,
    name: str,
    config: Mapping[str, str],
    context: JobContext,
    *,
    max_age_s: float | None = None,
) -> ArchiveLog | None:
    """Return the log that a connector writes; None for a source, or when it has written nothing."""
    if find_family(config.get("connector.class", "")).kind == "source":
        return None
    sink = read_sink(name, config, context)
    try:
        place = archives.place(ArchivePlace(address=sink.archive).id)
        return archives.log(place, sink.name, max_age_s=max_age_s)
    except NoSuchArchiveError:
        return None
    except RestError as error:
        if error.status == 404:
            return None
        raise


class ArchiveGrowth:
    """Remembers the times of commits, which never change. Safe to use from any thread."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        """By the digest of a table: when the last of its commits was made."""

    def points(self, log: ArchiveLog) -> tuple[GrowthPoint, ...]:
        """Return what the log had gained by each commit that brought objects.

        Commits that a checkpoint's table sums up are one point. Retired entries do not count.
        """
        made_ms = self._made_ms(log)
        points, objects, records, size = [], 0, 0, 0
        for row in _sums(log.entries):
            objects += row["key_count"]
            records += row["own_sum"]
            size += row["size_bytes_sum"]
            points.append(GrowthPoint(made_ms[row["last_commit"]], objects, records, size))
        return downsample(points)

    def _made_ms(self, log: ArchiveLog) -> dict[int, int]:
        """Return when the last commit of each table, and each later commit, was made."""
        found = {commit.number: commit.at_ms for commit in log.loaded.tail}
        for table in log.loaded.base.tables:
            if table.entries:
                found[table.last] = self._last_ms(log, table)
        return found

    def _last_ms(self, log: ArchiveLog, table: TableInfo) -> int:
        at_ms = self._times.get(table.sha256)
        if at_ms is None:
            stored = read_stored_commit(log.store, log.name, table.last)
            at_ms = decode_stored(log.name, stored).at_ms
            if len(self._times) >= _TIMES_KEPT:
                self._times.clear()
            self._times[table.sha256] = at_ms
        return at_ms


def _sums(entries: pa.Table) -> list[dict[str, Any]]:
    """Return objects, records and bytes by the last commit that may hold them, in its order.

    Objects of keys and headers hold the same records again, so those do not count.
    """
    own = pc.if_else(pc.equal(entries["view"], "value"), entries["records"], 0)
    sums = (
        entries.append_column("own", own)
        .group_by("last_commit")
        .aggregate([("key", "count"), ("own", "sum"), ("size_bytes", "sum")])
    )
    return list(sums.sort_by("last_commit").to_pylist())
