"""Open everything the groups of a restore need, and move or put them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafkeep.clock import now_ms
from kafkeep.errors import PreflightError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import Locations
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import Phase, open_documents
from kafkeep.restore.groups.job import GroupJob
from kafkeep.restore.groups.plan import GroupPlan
from kafkeep.restore.job import RestoreJob
from kafkeep.restore.log_source import LogSource
from kafkeep.restore.preflight import Preflight, require_pass
from kafkeep.restore.routing.routing import SAME
from kafkeep.store.open import open_store


def move_groups(
    options: RestoreOptions,
    locations: Locations,
    *,
    dry_run: bool,
    on_plan: Callable[[GroupPlan], None] = lambda _plan: None,
) -> GroupPlan:
    """Move groups to their archived positions; with ``dry_run``, only plan it.

    The topics must be those that a restore with the same options wrote, or the very ones that
    were archived.
    """
    with _opened(options, locations) as (job, found):
        _require_known(job, found)
        moves = job.plan_moves(found.document)
        on_plan(moves)
        if not dry_run:
            require_pass(job.checks(moves))
            job.apply(moves)
        return moves


def put_groups_back(
    options: RestoreOptions, locations: Locations
) -> dict[str, dict[tuple[str, int], int | None]]:
    """Undo what a restore with these options, or ``move_groups``, did to groups."""
    with _opened(options, locations) as (job, _):
        return job.rollback()


@contextmanager
def _opened(options: RestoreOptions, locations: Locations) -> Iterator[tuple[GroupJob, Preflight]]:
    with Wire(locations.kafka) as wire:
        store = open_store(locations.archive, locations.storage)
        job = RestoreJob(
            options=options,
            locations=locations,
            admin=Admin(wire),
            store=store,
            source=LogSource(store=store, options=options, now_ms=now_ms),
            documents=open_documents(options.state, locations.storage, store),
            cores=1,
            now_ms=now_ms,
        )
        # What was left out as damaged is not among the records that are counted.
        found = job.preflight() if options.allow_missing else job.plan_only()
        yield job.group_job(found), found


def _require_known(job: GroupJob, found: Preflight) -> None:
    """Refuse topics in which the position of an archived record is unknown."""
    there = job.admin.topics([topic.target for topic in found.plan.topics])
    for topic in found.plan.topics:
        described = there.get(topic.target)
        if described is None:
            raise PreflightError(f"topic {topic.target} is not in the cluster")
        if described.topic_id == topic.source.topic_id and topic.routing == SAME:
            continue
        known = found.document.target(topic.target) if found.document else None
        if known is None or described.topic_id != known.topic_id:
            raise PreflightError(
                f"topic {topic.target} is neither the one that was archived nor one that a restore "
                "with these options wrote",
                hint="Give the options of that restore, or run it with --groups.",
            )
        if found.document is not None and found.document.phase is not Phase.DONE:
            raise PreflightError(
                f"topic {topic.target} does not hold all of its records yet: its restore was cut "
                "off",
                hint="Run that restore to its end first, best with --groups.",
            )
