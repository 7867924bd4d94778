"""Consumer groups: their offsets in Kafka beside those that the archives keep. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kafkeep.archive.entry import PartitionId
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.connect.catalog.archives.archives import ArchiveLog, ArchivePlace, Archives
from kafkeep.connect.catalog.cluster import LiveCluster
from kafkeep.connect.catalog.readings import Reading
from kafkeep.connect.model import RestError
from kafkeep.errors import KafkeepError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.admin.describe_groups import (
    GroupMember,
    ListedGroup,
    list_described,
    load_members,
)
from kafkeep.kafka.admin.groups import load_group_offsets
from kafkeep.kafka.client.metadata import TopicDescription, TopicPartition

MEMBERS_SHOWN = 100
_SAVED_KEPT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """One group, in Kafka, in the archives, or in both."""

    id: str
    state: str | None
    """As Kafka names it; None: not in Kafka."""
    saved: Collection[PartitionId] = field(default=(), repr=False)
    """The partitions on which it has archived offsets."""
    lag: int | None = None
    """Over all partitions; None: not asked for, or not known."""

    @property
    def topics(self) -> int:
        """How many topics it has archived offsets on; costs time for many partitions."""
        return len({pid.topic for pid in self.saved})

    @property
    def partitions(self) -> int:
        """How many partitions it has archived offsets on."""
        return len(self.saved)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList:
    """All groups by name; ``problem`` says why Kafka's are not among them."""

    groups: tuple[GroupSummary, ...]
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class SavedGroup:
    """The offsets of a group in one log, at one commit."""

    archive: str
    """The id of the archive; ``ArchivePlace.id``."""
    address: str
    log: str
    commit: int
    at_ms: int
    offsets: Mapping[PartitionId, int]
    archived_to: Mapping[PartitionId, int]
    topic_ids: Mapping[tuple[str, int], str]

    @cached_property
    def newest(self) -> dict[str, int]:
        """The topics with their newest incarnation that has an offset."""
        found: dict[str, int] = {}
        for pid in self.offsets:
            found[pid.topic] = max(found.get(pid.topic, 0), pid.incarnation)
        return dict(sorted(found.items()))

    @cached_property
    def by_partition(self) -> dict[TopicPartition, PartitionId]:
        """The partitions of each topic's newest incarnation that has an offset."""
        newest = self.newest
        return {
            (pid.topic, pid.partition): pid
            for pid in self.offsets
            if newest[pid.topic] == pid.incarnation
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """One partition: where the group is in the archive and in Kafka."""

    topic: str
    partition: int
    incarnation: int | None = None
    """Which topic of that name was archived; None when only Kafka has an offset."""
    saved: int | None = None
    archived_to: int | None = None
    live: int | None = None
    end: int | None = None
    note: str = ""

    @property
    def lag(self) -> int | None:
        """How many offsets are left to read."""
        if self.live is None or self.end is None:
            return None
        return max(0, self.end - self.live)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetails:
    """One group, with one page of its partitions."""

    id: str
    state: str | None
    type: str
    members: tuple[GroupMember, ...]
    saved: SavedGroup | None
    """What is compared with Kafka."""
    choices: tuple[SavedGroup, ...]
    """The newest offsets in each log that has the group, the newest first."""
    rows: tuple[GroupOffset, ...]
    row_count: int
    live_age_s: float = 0.0
    """How old the offsets in Kafka are: those of a large group are kept for a while."""
    problem: str = ""


class ConsumerGroups:
    """Reads groups. Safe to use from any thread."""

    def __init__(self, cluster: LiveCluster, archives: Archives) -> None:
        self.cluster = cluster
        self.archives = archives
        self._saved: dict[tuple[str, str, str], tuple[ArchiveView, SavedGroup]] = {}
        """By archive, log and group: what the newest commit that was read says."""

    def list_all(self) -> GroupList:
        """Return every group that Kafka or an archive has."""
        problem = ""
        try:
            live = {one.id: one.state or "Unknown" for one in self._listed().values()}
        except KafkeepError as error:
            live, problem = {}, error.message
        saved = self._newest_by_group()
        found = [
            GroupSummary(id=name, state=live.get(name), saved=saved.get(name, ()))
            for name in sorted(live.keys() | saved.keys())
        ]
        return GroupList(groups=tuple(found), problem=problem)

    def with_lag(self, groups: Sequence[GroupSummary]) -> list[GroupSummary]:
        """Return the groups with their lag; asks Kafka for their offsets and all ends of these."""
        names = tuple(one.id for one in groups if one.state is not None)
        if not names:
            return list(groups)
        lags = self.cluster.readings.get(("lags", names), lambda: self._read_lags(names)).value
        return [replace(one, lag=lags.get(one.id)) for one in groups]

    def _read_lags(self, names: Sequence[str]) -> tuple[Mapping[str, int], int]:
        """Return the lag of each group with offsets, and how many offsets all have together."""
        admin = self.cluster.admin(for_readings=True)
        offsets = load_group_offsets(admin, None, names).offsets
        ends = self._ends({key for at in offsets.values() for key in at}, admin)
        lags = {}
        for name, at in offsets.items():
            known = [max(0, ends[key] - offset) for key, offset in at.items() if key in ends]
            if known:
                lags[name] = sum(known)
        return lags, sum(map(len, offsets.values()))

    def live_offsets(self, group: str) -> Reading[Mapping[TopicPartition, int]]:
        """Return the present offsets of a group; of a large one those of a moment ago."""

        def read() -> tuple[Mapping[TopicPartition, int], int]:
            admin = self.cluster.admin(for_readings=True)
            found = load_group_offsets(admin, None, [group]).offsets
            return found.get(group, {}), len(found.get(group, {}))

        return self.cluster.readings.get(("offsets", group), read)

    def details(
        self,
        group: str,
        *,
        archive: str = "",
        log: str = "",
        commit: int | None = None,
        start: int = 0,
        count: int | None = None,
    ) -> GroupDetails:
        """Return a group; 404 when neither Kafka nor an archive has it.

        ``archive``, ``log`` and ``commit`` choose the saved offsets; the newest if left out.
        ``start`` and ``count`` choose the partitions, in the order of their names.
        """
        choices = self.saved(group)
        chosen = self._choose(group, choices, archive, log, commit)
        problem, state, kind, age_s = "", None, "", 0.0
        live: Mapping[TopicPartition, int] = {}
        members: Sequence[GroupMember] = ()
        topics: Mapping[str, TopicDescription] = {}
        try:
            listed = self._listed().get(group)
            if listed is not None:
                state, kind = listed.state or "Unknown", listed.type
                reading = self.live_offsets(group)
                live, age_s = reading.value, reading.age_s
                members = load_members(self.cluster.admin(), group)
            topics = self.cluster.topics()
        except KafkeepError as error:
            problem = error.message
        if state is None and chosen is None and not choices and not problem:
            raise RestError(404, f"There is no consumer group {group!r} in Kafka or an archive")
        saved = chosen.by_partition if chosen is not None else {}
        keys = sorted(saved.keys() | live.keys())
        wanted = keys[start:] if count is None else keys[start : start + count]
        known_topics = None if problem else topics
        shown = [_row(key, chosen, saved.get(key), live.get(key), known_topics) for key in wanted]
        try:
            shown = self._with_ends(shown)
        except KafkeepError as error:
            problem = problem or error.message
        return GroupDetails(
            id=group,
            state=state,
            type=kind,
            members=tuple(members),
            saved=chosen,
            choices=tuple(choices),
            rows=tuple(shown),
            row_count=len(keys),
            live_age_s=age_s,
            problem=problem,
        )

    def saved(self, group: str) -> list[SavedGroup]:
        """Return the newest offsets of a group in each log that has it, the newest first."""
        found = [self._saved_in(log, group) for log in self._logs() if group in log.view.groups]
        return sorted(found, key=lambda one: (-one.at_ms, one.address, one.log))

    def _saved_in(self, log: ArchiveLog, group: str) -> SavedGroup:
        """Return what a log holds of a group; made once for each commit."""
        key = log.place.id, log.name, group
        known = self._saved.get(key)
        if known is None or known[0] is not log.view:
            if len(self._saved) >= _SAVED_KEPT:
                self._saved.clear()
            known = self._saved[key] = log.view, saved_group(log.place, log.view, group)
        return known[1]

    def saved_at(
        self, group: str, *, archive: str = "", log: str = "", commit: int | None = None
    ) -> SavedGroup | None:
        """Return the saved offsets that ``details`` compares with Kafka; asks only archives."""
        return self._choose(group, self.saved(group), archive, log, commit)

    def _choose(
        self,
        group: str,
        choices: Sequence[SavedGroup],
        archive: str,
        log: str,
        commit: int | None,
    ) -> SavedGroup | None:
        if not archive and not log and commit is None:
            return choices[0] if choices else None
        found = [one for one in choices if archive in ("", one.archive) and log in ("", one.log)]
        if commit is None and found:
            return found[0]
        place = self.archives.place(archive) if archive else self._only_place(found)
        name = log or (found[0].log if found else "")
        if not name:
            raise RestError(404, f"No log of {place.address} has the group {group!r}")
        view = load_view(self.archives.store(place), name, commit=commit)
        return saved_group(place, view, group)

    def _only_place(self, found: Sequence[SavedGroup]) -> ArchivePlace:
        if not found:
            raise RestError(400, "Name the archive, because no log has this group now")
        return self.archives.place(found[0].archive)

    def _listed(self) -> Mapping[str, ListedGroup]:
        return list_described(self.cluster.admin())

    def _logs(self) -> Iterable[ArchiveLog]:
        """Yield every log that can be read; a page about an archive says what is wrong with it."""
        for place in self.archives.places():
            try:
                yield from self.archives.logs(place)
            except KafkeepError:
                continue

    def _newest_by_group(self) -> Mapping[str, Collection[PartitionId]]:
        found: dict[str, tuple[int, Collection[PartitionId]]] = {}
        for log in self._logs():
            for name, offsets in log.view.groups.items():
                if name not in found or found[name][0] < log.view.at_ms:
                    found[name] = log.view.at_ms, offsets.keys()
        return {name: pids for name, (_, pids) in found.items()}

    def _ends(self, keys: Iterable[TopicPartition], admin: Admin) -> dict[TopicPartition, int]:
        topics = self.cluster.topics()
        there = [
            (topic, number)
            for topic, number in keys
            if topic in topics and number in topics[topic].partitions
        ]
        return admin.offsets(there, OffsetSpec.LATEST) if there else {}

    def _with_ends(self, rows: Sequence[GroupOffset]) -> list[GroupOffset]:
        ends = self._ends({(row.topic, row.partition) for row in rows}, self.cluster.admin())
        return [replace(row, end=ends.get((row.topic, row.partition))) for row in rows]


def saved_group(place: ArchivePlace, view: ArchiveView, group: str) -> SavedGroup:
    """Return what a log holds of a group at the commit of ``view``."""
    offsets = view.groups.get(group, {})
    names = {pid[:2] for pid in offsets}
    return SavedGroup(
        archive=place.id,
        address=place.address,
        log=view.name,
        commit=view.commit,
        at_ms=view.at_ms,
        offsets=offsets,
        archived_to={pid: view.positions[pid] for pid in offsets if pid in view.positions},
        topic_ids={
            name: info.topic_id for name, info in view.state.topics.items() if name in names
        },
    )


def _row(
    key: TopicPartition,
    chosen: SavedGroup | None,
    pid: PartitionId | None,
    live: int | None,
    topics: Mapping[str, TopicDescription] | None,
) -> GroupOffset:
    """Return one partition; ``topics`` is None while Kafka does not answer."""
    if chosen is None or pid is None:
        return GroupOffset(topic=key[0], partition=key[1], live=live)
    return GroupOffset(
        topic=pid.topic,
        partition=pid.partition,
        incarnation=pid.incarnation,
        saved=chosen.offsets[pid],
        archived_to=chosen.archived_to.get(pid),
        live=live,
        note="" if topics is None else _note(pid, chosen.topic_ids.get(pid[:2], ""), topics),
    )


def _note(pid: PartitionId, archived_id: str, topics: Mapping[str, TopicDescription]) -> str:
    """Return what the reader must know to compare the two offsets."""
    there = topics.get(pid.topic)
    if there is None:
        return "The topic is not in Kafka."
    if archived_id and there.topic_id and there.topic_id != archived_id:
        return "The topic was created again: its offsets are others."
    if pid.partition not in there.partitions:
        return "The topic has no such partition in Kafka."
    return ""
