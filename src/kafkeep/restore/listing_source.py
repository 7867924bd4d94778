"""Restore from a bucket that has no log: list its objects and count their records.

The list of objects is stored before the first record is written. A run that resumes restores the
same objects, so each record is written once. On the driver.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import orjson

from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView
from kafkeep.check_result import Check, CheckStatus
from kafkeep.errors import UsageError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.objects.unlogged.listing import NameParser, UnloggedName, list_unlogged
from kafkeep.objects.unlogged.scan import (
    SHOWN,
    ScanIndex,
    find_objects,
    load_index,
    next_number,
    save_index,
)
from kafkeep.objects.unlogged.view import NAME, UnloggedView, unlogged_view, what_objects_lack
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.unlogged import UnloggedOptions
from kafkeep.restore.document import RestoreDocument
from kafkeep.restore.plan import RestorePlan, TopicPlan
from kafkeep.restore.preflight import TargetSnapshot
from kafkeep.restore.source import ObjectCheck

_NEEDS_A_LOG = (
    *("commit", "at_ms", "groups", "incarnations", "restore_aborted"),
    *("schema_registry", "schema_registry_config"),
)


def options_for_listing(options: RestoreOptions, unlogged: UnloggedOptions) -> RestoreOptions:
    """Return the options of a restore whose records change as ``unlogged`` says."""
    return replace(options, changes=unlogged) if unlogged.active else options


def has_objects(store: ObjectStore, unlogged: UnloggedOptions, options: RestoreOptions) -> bool:
    """Return whether there is an object of a selected topic."""
    names, wanted = NameParser(unlogged), options.wants
    parsed = (names.parse(info.key) for info in store.list(names.prefix))
    return any(isinstance(name, UnloggedName) and wanted(name.topic) for name in parsed)


@dataclass(kw_only=True)
class ListingSource:
    """The objects of a bucket, presented as entries; see ``EntrySource``."""

    store: ObjectStore
    options: RestoreOptions
    unlogged: UnloggedOptions
    admin: Admin
    documents: ObjectStore
    """Where the list of objects is stored."""
    index: ScanIndex | None = None
    """The objects to restore, if already selected; else the bucket is listed."""
    _found: UnloggedView | None = field(default=None, init=False)

    def log_name(self) -> str:
        """Return a name derived from the options; UsageError for an option that needs a log."""
        self._refuse_log_options()
        texts = orjson.dumps(dict(self.unlogged.texts), option=orjson.OPT_SORT_KEYS)
        return f"{NAME}-{hashlib.sha256(texts).hexdigest()[:16]}"

    def load(self, id: str, resumed: RestoreDocument | None) -> ArchiveView:
        """List and count the objects, or load the list that an earlier run stored."""
        if resumed is not None:
            index = load_index(self.documents, _selection_id(id), resumed.commit)
        else:
            index = self._list(next_number(self.documents, _selection_id(id)))
        self._found = unlogged_view(self.store, index, self.unlogged)
        return self._found.view

    def read_options(self, view: ArchiveView, plan: RestorePlan) -> ReadOptions:
        """Return the options of the listing, with the targets of its topics."""
        targets = {topic.source.topic: topic.target for topic in plan.topics}
        return ReadOptions(unlogged=replace(self.unlogged, targets=targets))

    def newer_targets(self, view: ArchiveView, plan: RestorePlan) -> list[str]:
        """Return the targets of newer objects; none if the objects were given."""
        if self.index is not None:
            return []
        known = {one.name.key for one in self._loaded.index.objects}
        listed = list_unlogged(self.store, self.unlogged, self.options.wants).objects
        names = dict(self.options.topics)
        topics = {one.name.topic for one in listed if one.name.key not in known}
        return sorted(names.get(topic, topic) for topic in topics)

    def check_objects(self, view: ArchiveView, plan: RestorePlan) -> ObjectCheck:
        """Refuse unreadable objects, unless the options allow leaving them out."""
        problems = self._loaded.grouped.problems
        hint = "Add --allow-missing to restore without it."
        refused = () if self.options.allow_missing else problems
        return ObjectCheck(
            plan,
            lost=frozenset(key for key, _ in problems),
            failures=tuple(Check(CheckStatus.FAIL, key, why, hint) for key, why in refused),
        )

    def check_contents(
        self,
        plan: RestorePlan,
        reading: ReadOptions,
        target: TargetSnapshot,
    ) -> list[Check]:
        """Return warnings for topic and record data that the objects do not hold."""
        checks = list(self._name_warnings())
        for topic in plan.topics:
            checks += self._topic_warnings(topic, created=topic.target not in target.topics)
        return checks

    def save_selection(self, documents: ObjectStore, id: str) -> None:
        """Store the list of objects."""
        save_index(documents, _selection_id(id), self._loaded.index)

    @property
    def _loaded(self) -> UnloggedView:
        assert self._found is not None, "load() comes first"
        return self._found

    def _refuse_log_options(self) -> None:
        given = [name for name in _NEEDS_A_LOG if getattr(self.options, name)]
        if given or self.options.commit is not None:
            name = (given or ["commit"])[0].removesuffix("_ms").replace("_", "-")
            raise UsageError(
                f"--{name} needs a log, and {self.store.describe()} has none",
                hint="Leave it out: the objects are found by listing the bucket.",
            )

    def _list(self, number: int) -> ScanIndex:
        if self.index is not None:
            index = replace(self.index, number=number)
        else:
            index = find_objects(self.store, self.unlogged, self.options.wants, number=number)
        return replace(
            index, partitions=self._partition_counts({o.name.topic for o in index.objects})
        )

    def _partition_counts(self, topics: set[str]) -> dict[str, int]:
        """Return the partition counts of existing targets: no object shows an empty partition."""
        names = dict(self.options.topics)
        there = self.admin.topics([names.get(topic, topic) for topic in topics])
        return {
            topic: there[names.get(topic, topic)].partition_count
            for topic in sorted(topics)
            if names.get(topic, topic) in there
        }

    def _name_warnings(self) -> Iterator[Check]:
        index = self._loaded.index
        for key, why in index.odd[:SHOWN]:
            yield Check(CheckStatus.WARN, key, f"is left out: it {why}")
        if index.odd_count > SHOWN:
            more = f"{index.odd_count - SHOWN:,} more are left out"
            yield Check(CheckStatus.WARN, self.store.describe(), more)
        what = "repeats records of the object before it: they are restored twice"
        for key in self._loaded.grouped.repeats[:SHOWN]:
            yield Check(CheckStatus.WARN, key, what)

    def _topic_warnings(self, topic: TopicPlan, *, created: bool) -> Iterator[Check]:
        for sentence in what_objects_lack(tuple(topic.entries), self.unlogged):
            yield Check(CheckStatus.WARN, topic.target, sentence)
        if created:
            what = (
                "settings, replicas and the number of partitions are unknown: it gets "
                f"{len(topic.partitions)} partitions, by the highest number in names, and the "
                "broker's defaults"
            )
            yield Check(CheckStatus.WARN, topic.target, what)


def _selection_id(id: str) -> str:
    return f"{id}-restored"
