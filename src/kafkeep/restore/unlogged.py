"""A restore from objects that no log names: found by listing, counted once, then like any other.

What was found is written down before the first record is: a run that was cut off goes on with the
same objects, and each record is written once. On the driver.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import partial

import orjson

from kafkeep.archive.object_store import ObjectStore
from kafkeep.check_result import Check, CheckStatus
from kafkeep.errors import UsageError
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.objects.unlogged.listing import list_unlogged, names_of
from kafkeep.objects.unlogged.names import UnloggedName
from kafkeep.objects.unlogged.scan import (
    SHOWN,
    Index,
    find_objects,
    load_index,
    next_number,
    save_index,
)
from kafkeep.objects.unlogged.view import NAME, UnloggedView, unlogged_view, what_is_not_told
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.unlogged import UnloggedOptions
from kafkeep.restore.document import Phase, RestoreDocument, load_document
from kafkeep.restore.exact.plan import check_exact
from kafkeep.restore.job import RestoreJob, RunTasks
from kafkeep.restore.plan import TopicPlan, plan_restore, restore_id
from kafkeep.restore.preflight import Preflight, check_targets, look_at_target
from kafkeep.restore.routing.plan import check_shape
from kafkeep.restore.source import check_newer
from kafkeep.restore.summary import RestoreSummary
from kafkeep.restore.target_checks import rehearse

_OF_A_LOG = (
    *("commit", "at_ms", "groups", "incarnations", "restore_aborted"),
    *("schema_registry", "schema_registry_config"),
)


@dataclass(kw_only=True)
class ForeignJob(RestoreJob):
    """One restore without a log."""

    unlogged: UnloggedOptions
    index: Index | None = None
    """The objects to restore, where they were found already."""
    found: UnloggedView | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.unlogged.active:
            self.options = replace(self.options, changes=self.unlogged)

    def plan_only(self) -> Preflight:
        """Find the objects, or those an unfinished run began with, and plan."""
        self._refuse()
        asked = orjson.dumps(dict(self.unlogged.texts), option=orjson.OPT_SORT_KEYS)
        log = f"{NAME}-{hashlib.sha256(asked).hexdigest()[:16]}"
        id = self.id or restore_id(
            self.store.describe(), log, self.options, self.admin.cluster_id()
        )
        document = load_document(self.documents, id)
        self.found = self._look(id, document)
        plan = plan_restore(self.found.view, self.options, id=id)
        options = replace(self.unlogged, targets={t.source.topic: t.target for t in plan.topics})
        return Preflight(plan, (), document, frozenset(), ReadOptions(unlogged=options))

    def preflight(self) -> Preflight:
        """Plan, and look at objects and target; writes nothing."""
        found = self.without_restored(self.plan_only())
        assert self.found is not None
        plan, problems = found.plan, self.found.grouped.problems
        target = look_at_target(self.admin, plan)
        checks = [
            replace(check, what=check.what.replace("-1 replicas", "the broker's replicas"))
            for check in check_targets(plan, target, self.options, found.document)
        ]
        ask = partial(rehearse, plan, target, found.document, self.options, admin=self.admin)
        checks += ask(checks, now_ms=self.now_ms())
        checks += check_shape(plan, self.options)
        checks += check_newer(self.summary.newer)
        if plan.exact:
            checks += check_exact(plan, self.options)
        if not self.options.allow_missing:
            hint = "With --allow-missing the restore goes on without it."
            checks += [Check(CheckStatus.FAIL, key, why, hint) for key, why in problems]
        created = {topic.target for topic in plan.topics} - target.topics.keys()
        losses = [
            *self._losses_of_names(),
            *(c for topic in plan.topics for c in self._losses(topic, topic.target in created)),
        ]
        self.summary.missing = [f"{check.subject}: {check.what}" for check in losses]
        lost = frozenset(key for key, _ in problems)
        return replace(found, checks=(*checks, *losses), lost=lost)

    def run(self, preflight: Preflight, run_tasks: RunTasks) -> RestoreSummary:
        """Write down which objects are meant, then restore them."""
        assert self.found is not None
        save_index(self.documents, f"{preflight.plan.id}-restored", self.found.index)
        return super().run(preflight, run_tasks)

    def _refuse(self) -> None:
        given = [name for name in _OF_A_LOG if getattr(self.options, name)]
        if given or self.options.commit is not None:
            name = (given or ["commit"])[0].removesuffix("_ms").replace("_", "-")
            raise UsageError(
                f"--{name} is about what a log says, and {self.store.describe()} has none",
                hint="Its objects are found by listing: restore them without it.",
            )

    def _look(self, id: str, document: RestoreDocument | None) -> UnloggedView:
        if document is not None and self._goes_on(document):
            saved = load_index(self.documents, f"{id}-restored", document.commit)
            if document.phase is Phase.DONE and self.index is None:
                self.summary.newer = self._appeared_since(saved)
            return unlogged_view(self.store, saved, self.unlogged)
        number = next_number(self.documents, f"{id}-restored")
        if self.index is not None:
            index = replace(self.index, number=number)
        else:
            index = find_objects(self.store, self.unlogged, self.options.wants, number=number)
        index = replace(index, partitions=self._partitions({o.name.topic for o in index.objects}))
        return unlogged_view(self.store, index, self.unlogged)

    def _appeared_since(self, saved: Index) -> list[str]:
        """Return the targets of objects that a restore which is done did not find."""
        known = {one.name.key for one in saved.objects}
        listed = list_unlogged(self.store, self.unlogged, self.options.wants).objects
        names = dict(self.options.topics)
        topics = {one.name.topic for one in listed if one.name.key not in known}
        return sorted(names.get(topic, topic) for topic in topics)

    def _partitions(self, topics: set[str]) -> dict[str, int]:
        """Return how many partitions the targets have: no name tells of an empty one."""
        names = dict(self.options.topics)
        there = self.admin.topics([names.get(topic, topic) for topic in topics])
        return {
            topic: there[names.get(topic, topic)].partition_count
            for topic in sorted(topics)
            if names.get(topic, topic) in there
        }

    def _losses_of_names(self) -> list[Check]:
        assert self.found is not None
        index, checks = self.found.index, []
        for key, why in index.odd[:SHOWN]:
            checks.append(Check(CheckStatus.WARN, key, f"is left out: it {why}"))
        if index.odd_count > SHOWN:
            more = index.odd_count - SHOWN
            checks.append(
                Check(CheckStatus.WARN, self.store.describe(), f"{more:,} more are left out")
            )
        for key in self.found.grouped.repeats[:SHOWN]:
            what = "holds records that are in the object before it, too: they are restored twice"
            checks.append(Check(CheckStatus.WARN, key, what))
        return checks

    def _losses(self, topic: TopicPlan, created: bool) -> list[Check]:
        said = list(what_is_not_told(topic.entries, self.unlogged))
        if created:
            count = len(topic.partitions)
            said.append(
                f"settings, replicas and the number of partitions are not told: it gets {count}, "
                "for the highest number in names, and the broker's defaults"
            )
        return [Check(CheckStatus.WARN, topic.target, sentence) for sentence in said]


def has_objects(store: ObjectStore, unlogged: UnloggedOptions, options: RestoreOptions) -> bool:
    """Tell whether there is an object of a topic asked for."""
    names, wanted = names_of(unlogged), options.wants
    parsed = (names.parse(info.key) for info in store.list(names.prefix))
    return any(isinstance(name, UnloggedName) and wanted(name.topic) for name in parsed)
