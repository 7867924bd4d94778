"""Everything that the pages and ``/kafkeep/v1`` show beside connectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kafkeep.clock import now_ms
from kafkeep.connect.catalog.archives.archives import ArchivePlace, Archives
from kafkeep.connect.catalog.archives.commit_history import CommitHistory
from kafkeep.connect.catalog.archives.left_overs import LeftOverFinder
from kafkeep.connect.catalog.cluster import LiveCluster
from kafkeep.connect.catalog.doctor import WorkerDoctor
from kafkeep.connect.catalog.group_moves import GroupMoves
from kafkeep.connect.catalog.groups import ConsumerGroups
from kafkeep.connect.catalog.messages.message_catalog import MessageCatalog
from kafkeep.connect.catalog.schemas import SchemaCatalog
from kafkeep.connect.catalog.topics.topic_catalog import TopicCatalog
from kafkeep.connect.connectors.families import find_family
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.jobs.sink import read_sink
from kafkeep.errors import KafkeepError
from kafkeep.options.storage import StorageOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The live cluster and the archives of the connectors. Safe to use from any thread."""

    cluster: LiveCluster
    archives: Archives
    schemas: SchemaCatalog
    state: ArchivePlace | None = None
    """Where the service keeps its state; None: it is not checked."""
    topics: TopicCatalog = field(init=False)
    messages: MessageCatalog = field(init=False)
    commits: CommitHistory = field(default_factory=CommitHistory)
    left_overs: LeftOverFinder = field(init=False)
    groups: ConsumerGroups = field(init=False)
    group_moves: GroupMoves = field(init=False)
    doctor: WorkerDoctor = field(init=False)

    def __post_init__(self) -> None:
        topics = TopicCatalog(self.cluster, self.archives)
        object.__setattr__(self, "topics", topics)
        messages = MessageCatalog(self.cluster, topics, self.schemas.registries)
        object.__setattr__(self, "messages", messages)
        object.__setattr__(self, "left_overs", LeftOverFinder(self.archives))
        groups = ConsumerGroups(self.cluster, self.archives)
        object.__setattr__(self, "groups", groups)
        moves = GroupMoves(self.cluster, self.archives, groups, now_ms)
        object.__setattr__(self, "group_moves", moves)
        doctor = WorkerDoctor(self.cluster.options, self.state, self.archives.places)
        object.__setattr__(self, "doctor", doctor)

    def close(self) -> None:
        """Close the connections to Kafka, and end what reads logs."""
        self.archives.close()
        self.cluster.close()


def archive_places(
    configs: Callable[[], Mapping[str, Mapping[str, str]]],
    context_for: Callable[[Mapping[str, str]], JobContext],
) -> Callable[[], tuple[ArchivePlace, ...]]:
    """Return what finds the archives of the connectors whose resolved ``configs`` are given.

    A connector whose configuration cannot be read has no archive; its status says why. Each page
    asks several times, so the archives are found again only when a configuration has changed.
    """
    last: tuple[Mapping[str, Mapping[str, str]], tuple[ArchivePlace, ...]] = {}, ()

    def places() -> tuple[ArchivePlace, ...]:
        nonlocal last
        given, known = configs(), last
        if known[0] != given:
            known = last = given, tuple(find(given))
        return known[1]

    def find(given: Mapping[str, Mapping[str, str]]) -> Iterator[ArchivePlace]:
        found: dict[str, tuple[StorageOptions | None, list[str]]] = {}
        for name, config in sorted(given.items()):
            try:
                if find_family(config.get("connector.class", "")).kind == "source":
                    continue
                sink = read_sink(name, config, context_for(config))
            except KafkeepError:
                continue
            found.setdefault(sink.archive, (sink.storage, []))[1].append(name)
        return _places(found.items())

    return places


def _places(
    found: Iterable[tuple[str, tuple[StorageOptions | None, list[str]]]],
) -> Iterator[ArchivePlace]:
    for address, (storage, names) in found:
        yield ArchivePlace(address=address, storage=storage, connectors=tuple(names))
