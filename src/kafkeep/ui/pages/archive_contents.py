"""What a log of an archive holds: commits, and the tree of topics, partitions and objects."""

from __future__ import annotations

from collections import defaultdict

from starlette.responses import Response

from kafkeep.archive.commit import Commit
from kafkeep.archive.entry import Entry
from kafkeep.connect.catalog.archives.archives import ArchiveLog
from kafkeep.connect.catalog.archives.storage import sum_partitions, sum_topics, topic_of_folder
from kafkeep.connect.catalog.archives.stored_objects import find_object, find_objects, paged
from kafkeep.connect.model import RestError
from kafkeep.connect.rest.v1.root import parse_number
from kafkeep.maintenance.inspect.commit_summary import StorageSums, summarize
from kafkeep.ui.pages.archive import ArchiveVisit, archive_tab, archive_visit
from kafkeep.ui.paging import page_number
from kafkeep.ui.visit import PageRoute, Visit

_COMMITS, _ROWS = 20, 50


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
    PageRoute(path="/archive/{archive}/commits", run=show_commits),
    PageRoute(path="/archive/{archive}/commits/{number}", run=show_commit),
    PageRoute(path="/archive/{archive}/objects", run=show_topics),
    PageRoute(path="/archive/{archive}/objects/{folder}", run=show_topic),
    PageRoute(path="/archive/{archive}/objects/{folder}/{partition}", run=show_partition),
    PageRoute(path="/archive/{archive}/object", run=show_object),
)
