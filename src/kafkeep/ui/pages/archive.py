"""The archives: what each holds, its storage by topic and day, and what in it needs attention.

The tabs of one archive show its commits, and the tree of topics, partitions and objects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from kafkeep.archive.commit import Commit
from kafkeep.archive.entry import Entry
from kafkeep.connect.catalog.archives.archives import ArchiveLog, ArchivePlace
from kafkeep.connect.catalog.archives.overview import (
    MANY_OBJECTS,
    SMALL_BYTES,
    describe_archive,
    recent_small_objects,
)
from kafkeep.connect.catalog.archives.storage import (
    DayStorage,
    sum_days,
    sum_partitions,
    sum_topics,
    topic_of_folder,
)
from kafkeep.connect.catalog.archives.stored_objects import find_object, find_objects, paged
from kafkeep.connect.model import RestError
from kafkeep.connect.rest.v1.root import parse_number
from kafkeep.connect.worker.rest_security import Role
from kafkeep.errors import KafkeepError, NoSuchArchiveError
from kafkeep.maintenance.gc import OrphanAction
from kafkeep.maintenance.inspect.commit_summary import StorageSums, summarize
from kafkeep.ui.frame import ROOT, NavLink
from kafkeep.ui.paging import page_number
from kafkeep.ui.visit import PageRoute, Visit, see_other

NAV = NavLink("Archive", "/archive", "a", "archive")
TABS = (
    ("overview", "Overview", ""),
    ("commits", "Commits", "/commits"),
    ("objects", "Objects", "/objects"),
    ("storage", "Storage", "/storage"),
    ("warnings", "Warnings", "/warnings"),
    ("verification", "Verification", "/verification"),
)
_DAYS_SHOWN = 366
_LEFT_OVERS_SHOWN = 200
_COMMITS, _ROWS = 20, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveVisit:
    """The archive that a page is about, and the log that was chosen from it."""

    place: ArchivePlace
    logs: Sequence[str]
    log: str
    """The chosen log, or else the first; empty when there is none."""


def archive_visit(visit: Visit) -> ArchiveVisit:
    """Return the archive in the path and the log in the query; 404 when there is no archive."""
    archives = visit.service.catalog.archives
    place = archives.place(visit.path["archive"])
    try:
        names = archives.log_names(place)
    except NoSuchArchiveError:
        names = ()
    wanted = visit.query.get("log", "")
    return ArchiveVisit(place=place, logs=names, log=wanted or next(iter(names), ""))


def archive_tab(visit: Visit, tab: str, at: ArchiveVisit, **values: Any) -> Response:
    """Return a page of an archive, in its frame with tabs."""
    title = f"Archive {at.place.address}"
    path = f"{ROOT}/archive/{at.place.id}"
    return visit.page(
        f"archive/{tab}.html", title=title, at=at, here=path, tabs=TABS, tab=tab, **values
    )


def show_list(visit: Visit) -> Response:
    """List the archives of all connectors."""
    archives = visit.service.catalog.archives
    found = [describe_archive(archives, place) for place in archives.places()]
    return visit.page("archive/list.html", title="Archive", archives=found)


def show_overview(visit: Visit) -> Response:
    """Show the logs of an archive and their sums."""
    at = archive_visit(visit)
    found = describe_archive(visit.service.catalog.archives, at.place)
    return archive_tab(visit, "overview", at, archive=found)


def show_storage(visit: Visit) -> Response:
    """Show what is stored by topic and by day, of one log or of all."""
    at = archive_visit(visit)
    logs, unread = _chosen_logs(visit, at)
    topics = [one for log in logs for one in sum_topics(log)]
    topics.sort(key=lambda one: -one.sums.size_bytes)
    total = sum((one.sums for one in topics), StorageSums())
    days = sum_days(pa.concat_tables([log.entries for log in logs])) if logs else []
    return archive_tab(
        visit,
        "storage",
        at,
        topics=paged(topics, page_number(visit.query), _ROWS),
        total=total,
        days=days,
        columns=_day_columns(days),
        unread=unread,
        chosen=visit.query.get("log", ""),
    )


def _chosen_logs(visit: Visit, at: ArchiveVisit) -> tuple[list[ArchiveLog], list[str]]:
    """Return the chosen logs, all if none is chosen, and why others cannot be read."""
    archives = visit.service.catalog.archives
    if visit.query.get("log"):
        return [archives.log(at.place, at.log)], []
    found, unread = [], []
    for name in at.logs:
        try:
            found.append(archives.log(at.place, name))
        except KafkeepError as error:
            unread.append(f"{name}: {error.message}")
    return found, unread


def _day_columns(days: Sequence[DayStorage]) -> list[list[float]]:
    """Return the columns of the chart, the oldest day first: seconds, bytes."""
    shown = [one for one in days if one.day is not None][:_DAYS_SHOWN][::-1]
    return [[one.at_ms // 1000 for one in shown], [one.sums.size_bytes for one in shown]]


def show_warnings(visit: Visit) -> Response:
    """Show gaps and small objects; what crashes left is searched on request."""
    at = archive_visit(visit)
    logs, unread = _chosen_logs(visit, at)
    gaps = [(log.name, gap) for log in logs for gap in log.gaps][::-1]
    return archive_tab(
        visit,
        "warnings",
        at,
        gaps=paged(gaps, page_number(visit.query), _ROWS),
        lost_offsets=sum(len(gap.range) for _, gap in gaps),
        small=recent_small_objects(visit.service.catalog.archives, logs),
        small_bytes=SMALL_BYTES,
        many=MANY_OBJECTS,
        unread=unread,
        **_left_overs(visit, at.place),
    )


def show_left_overs(visit: Visit) -> Response:
    """Show what the last search for left-over objects found, or that one runs."""
    place = visit.service.catalog.archives.place(visit.path["archive"])
    here = f"{ROOT}/archive/{place.id}"
    return visit.part("archive/left_overs.html", here=here, **_left_overs(visit, place))


def _left_overs(visit: Visit, place: ArchivePlace) -> dict[str, Any]:
    return {
        "state": visit.service.catalog.left_overs.state(place),
        "place": place,
        "most": _LEFT_OVERS_SHOWN,
        "fate": OrphanAction,
    }


def search_left_overs(visit: Visit) -> Response:
    """Search for what crashed backups left, as ``gc --dry-run`` does."""
    place = visit.service.catalog.archives.place(visit.path["archive"])
    visit.service.catalog.left_overs.start(place)
    return see_other(f"{ROOT}/archive/{place.id}/left-overs")


def _opened(visit: Visit) -> tuple[ArchiveVisit, ArchiveLog | None]:
    """Return the archive and the chosen log; no log when nothing was committed yet."""
    at = archive_visit(visit)
    return at, visit.service.catalog.archives.log(at.place, at.log) if at.log else None


def _need(visit: Visit) -> tuple[ArchiveVisit, ArchiveLog]:
    at, log = _opened(visit)
    if log is None:
        raise RestError(404, f"{at.place.address} has no log yet")
    return at, log


def show_commits(visit: Visit) -> Response:
    """List the commits of a log, the newest first."""
    at, log = _opened(visit)
    before = visit.query.get("before", "")
    page = None
    if log is not None:
        end = parse_number("before", before) if before else None
        page = visit.service.catalog.commits.page(log, end, _COMMITS)
    return archive_tab(visit, "commits", at, page=page, is_newest=not before, step=_COMMITS)


def show_commit(visit: Visit) -> Response:
    """Show what one commit brought: sums of each topic, objects and gaps."""
    at, log = _need(visit)
    commit = visit.service.catalog.commits.commit(log, parse_number("commit", visit.path["number"]))
    return archive_tab(
        visit,
        "commit",
        at,
        commit=commit,
        summary=summarize(commit),
        topics=_by_topic(commit),
        objects=paged(commit.changes.entries, page_number(visit.query), _ROWS),
        newest=log.view.commit,
    )


def _by_topic(commit: Commit) -> list[tuple[str, StorageSums]]:
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in commit.changes.entries:
        found[entry.partition_id.folder].append(entry)
    return [(folder, StorageSums.of(mine)) for folder, mine in sorted(found.items())]


def show_topics(visit: Visit) -> Response:
    """List the topics of a log."""
    at, log = _opened(visit)
    q = visit.query.get("q", "").strip()
    found = [] if log is None else sum_topics(log)
    shown = [one for one in found if q.lower() in one.folder.lower()]
    return archive_tab(
        visit,
        "objects",
        at,
        topics=paged(shown, page_number(visit.query), _ROWS),
        q=q,
        total=len(found),
    )


def show_topic(visit: Visit) -> Response:
    """List the partitions of a topic."""
    at, log = _need(visit)
    found = sum_partitions(log, *topic_of_folder(visit.path["folder"]))
    if not found:
        raise RestError(404, f"The log {log.name} has no object of {visit.path['folder']}")
    return archive_tab(
        visit,
        "topic",
        at,
        folder=visit.path["folder"],
        partitions=paged(found, page_number(visit.query), _ROWS),
    )


def show_partition(visit: Visit) -> Response:
    """List the objects of a partition in offset order, from an offset if one is given."""
    at, log = _need(visit)
    topic, incarnation = topic_of_folder(visit.path["folder"])
    offset = visit.query.get("offset", "").strip()
    objects = find_objects(
        log,
        topic,
        incarnation,
        parse_number("partition", visit.path["partition"]),
        offset=parse_number("offset", offset) if offset else 0,
        page=page_number(visit.query),
        size=_ROWS,
    )
    return archive_tab(
        visit,
        "partition",
        at,
        topic=topic,
        folder=visit.path["folder"],
        partition=visit.path["partition"],
        offset=offset,
        objects=objects,
    )


def show_object(visit: Visit) -> Response:
    """Show everything that the log says of one object."""
    at, log = _need(visit)
    found = find_object(log, visit.query.get("key", ""))
    return archive_tab(visit, "object", at, object=found, log=log)


ROUTES = (
    PageRoute(path="/archive", run=show_list),
    PageRoute(path="/archive/{archive}", run=show_overview),
    PageRoute(path="/archive/{archive}/storage", run=show_storage),
    PageRoute(path="/archive/{archive}/warnings", run=show_warnings),
    PageRoute(path="/archive/{archive}/left-overs", run=show_left_overs),
    PageRoute(
        path="/archive/{archive}/left-overs",
        run=search_left_overs,
        role=Role.OPERATE,
        method="POST",
    ),
    PageRoute(path="/archive/{archive}/commits", run=show_commits),
    PageRoute(path="/archive/{archive}/commits/{number}", run=show_commit),
    PageRoute(path="/archive/{archive}/objects", run=show_topics),
    PageRoute(path="/archive/{archive}/objects/{folder}", run=show_topic),
    PageRoute(path="/archive/{archive}/objects/{folder}/{partition}", run=show_partition),
    PageRoute(path="/archive/{archive}/object", run=show_object),
)
