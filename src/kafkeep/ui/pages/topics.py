"""The list of topics, live beside archived, and the page of one topic with its tabs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.responses import Response

from kafkeep.connect.catalog.topics.catalog_topic import CatalogTopic, TopicFilter
from kafkeep.connect.catalog.topics.coverage import BarPart, PartitionCoverage, offset_bar, place
from kafkeep.connect.catalog.topics.logged_topics import newest_rows
from kafkeep.connect.catalog.topics.topic_catalog import Incarnation, TopicCatalog, log_id
from kafkeep.errors import KafkeepError
from kafkeep.ui.frame import NavLink
from kafkeep.ui.paging import Paging, page_number
from kafkeep.ui.visit import PageRoute, Visit

NAV = NavLink("Topics", "/topics", "t", "topics")
TOPICS_SHOWN = 50
PARTITIONS_SHOWN = 100
OBJECTS_SHOWN = 100
GROUPS_SHOWN = 100
RANGES_SHOWN = 200
TABS = (
    ("coverage", "Coverage", ""),
    ("messages", "Messages", "/messages"),
    ("partitions", "Partitions", "/partitions"),
    ("settings", "Settings", "/settings"),
    ("groups", "Consumer groups", "/groups"),
    ("objects", "Objects", "/objects"),
)
FILTERS = (
    (TopicFilter.ALL, "All topics"),
    (TopicFilter.COVERED, "Archived"),
    (TopicFilter.UNCOVERED, "Not archived"),
    (TopicFilter.ARCHIVE_ONLY, "Only in the archive"),
    (TopicFilter.GAPS, "With gaps"),
    (TopicFilter.RECREATED, "Re-created"),
    (TopicFilter.INTERNAL, "Internal"),
)


@dataclass(frozen=True, slots=True)
class PartitionBar:
    """A partition with its bar, and where its live offsets are in it."""

    coverage: PartitionCoverage
    parts: tuple[BarPart, ...]
    live: tuple[float, float] | None


def topic_path(name: str, more: str = "") -> str:
    """Return the address of a topic's page below the console's root."""
    return f"/topics/{quote(name, safe='')}{more}"


def _catalog(visit: Visit) -> TopicCatalog:
    return visit.service.catalog.topics


def show_list(visit: Visit) -> Response:
    """List topics. Offsets take requests to every broker, so htmx loads the rows with them later.

    With ``live=yes`` the rows have them at once.
    """
    q = visit.query.get("q", "").strip()
    show = next((one for one, _ in FILTERS if one == visit.query.get("show")), TopicFilter.ALL)
    listing = _catalog(visit).find_all(q, show)
    paging = Paging(len(listing.topics), page_number(visit.query), TOPICS_SHOWN)
    topics: Sequence[CatalogTopic] = listing.topics[paging.start : paging.end]
    problems = list(listing.problems)
    with_offsets = visit.query.get("live") == "yes"
    if with_offsets:
        try:
            topics = _catalog(visit).with_offsets(topics, may_be_old=True)
        except KafkeepError as error:
            problems.append(f"The offsets in Kafka cannot be read now: {error.message}")
    values: dict[str, Any] = {
        "topics": topics,
        "q": q,
        "show": show,
        "here": "/topics?" + urlencode({"q": q, "show": show.value}),
        "paging": paging,
        "problems": problems,
        "with_offsets": with_offsets,
        "age_s": max((one.offsets.age_s for one in topics if one.offsets), default=0.0),
    }
    if with_offsets and visit.is_htmx:
        return visit.part("topics/rows.html", **values)
    return visit.page("topics/list.html", title="Topics", filters=FILTERS, **values)


def _with_offsets(visit: Visit) -> tuple[CatalogTopic, str]:
    """Return the topic of the path with its live offsets, or why they cannot be read."""
    topic = _catalog(visit).find(visit.path["topic"])
    try:
        [topic] = _catalog(visit).with_offsets([topic])
    except KafkeepError as error:
        return topic, f"The offsets in Kafka cannot be read now: {error.message}"
    return topic, ""


def tab_page(visit: Visit, tab: str, topic: CatalogTopic, **values: Any) -> Response:
    """Return a tab of a topic's page."""
    return visit.page(
        f"topics/{tab}.html", title=topic.name, tab=tab, tabs=TABS, topic=topic, **values
    )


def show_coverage(visit: Visit) -> Response:
    """Show what is archived, by offset and by time."""
    topic, problem = _with_offsets(visit)
    logs = {log_id(one): one.log for one in topic.logged}
    only = next((key for key in logs if "/".join(key) == visit.query.get("log")), None)
    coverage = _catalog(visit).coverage(topic, now_ms=visit.now_ms, only=only)
    most = max((len(one.partitions) for one in coverage.incarnations), default=0)
    paging = Paging(most, page_number(visit.query), PARTITIONS_SHOWN)
    return tab_page(
        visit,
        "coverage",
        topic,
        problem=problem,
        logs=logs,
        only=only,
        incarnations=[(one, _bars(one, paging)) for one in coverage.incarnations],
        paging=paging,
        here=topic_path(topic.name) + "?" + urlencode({"log": visit.query.get("log", "")}),
        times=coverage.times,
        ranges_shown=RANGES_SHOWN,
    )


def _bars(incarnation: Incarnation, paging: Paging) -> list[PartitionBar]:
    return [
        PartitionBar(
            one,
            offset_bar(one, incarnation.logged.get(one.partition, ())),
            place(one.live, one.span) if one.live and one.span else None,
        )
        for one in incarnation.partitions[paging.start : paging.end]
    ]


def show_partitions(visit: Visit) -> Response:
    """Show leader, replicas and offsets of each partition."""
    topic, problem = _with_offsets(visit)
    coverage = _catalog(visit).coverage(topic, now_ms=visit.now_ms)
    newest = next(iter(coverage.incarnations), None)
    rows = newest.partitions if newest is not None else ()
    paging = Paging(len(rows), page_number(visit.query), PARTITIONS_SHOWN)
    return tab_page(
        visit,
        "partitions",
        topic,
        problem=problem,
        rows=rows[paging.start : paging.end],
        paging=paging,
        here=topic_path(topic.name, "/partitions?"),
    )


def show_settings(visit: Visit) -> Response:
    """Show the settings in Kafka beside those that a restore would set."""
    topic = _catalog(visit).find(visit.path["topic"])
    live, problem = {}, ""
    try:
        live = dict(_catalog(visit).configs(topic))
    except KafkeepError as error:
        problem = f"The settings in Kafka cannot be read now: {error.message}"
    return tab_page(visit, "settings", topic, live=live, problem=problem)


def show_groups(visit: Visit) -> Response:
    """Show the consumer groups that have committed offsets."""
    topic = _catalog(visit).find(visit.path["topic"])
    try:
        (groups, denied), problem = _catalog(visit).groups(topic), ""
    except KafkeepError as error:
        groups, denied, problem = (), (), f"The groups cannot be read now: {error.message}"
    paging = Paging(len(groups), page_number(visit.query), GROUPS_SHOWN)
    return tab_page(
        visit,
        "groups",
        topic,
        groups=groups[paging.start : paging.end],
        denied=denied,
        problem=problem,
        paging=paging,
        here=topic_path(topic.name, "/groups?"),
    )


def show_objects(visit: Visit) -> Response:
    """Show the objects of the topic, the newest offsets first."""
    topic = _catalog(visit).find(visit.path["topic"])
    count = sum(one.objects for one in topic.logged)
    paging = Paging(count, page_number(visit.query), OBJECTS_SHOWN)
    return tab_page(
        visit,
        "objects",
        topic,
        rows=newest_rows(topic.logged, paging.start, paging.end),
        paging=paging,
        here=topic_path(topic.name, "/objects?"),
    )


ROUTES = (
    PageRoute(path="/topics", run=show_list),
    PageRoute(path="/topics/{topic}", run=show_coverage),
    PageRoute(path="/topics/{topic}/partitions", run=show_partitions),
    PageRoute(path="/topics/{topic}/settings", run=show_settings),
    PageRoute(path="/topics/{topic}/groups", run=show_groups),
    PageRoute(path="/topics/{topic}/objects", run=show_objects),
)
