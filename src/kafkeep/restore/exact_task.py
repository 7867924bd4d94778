"""The function a Spark task runs for a restore at exact offsets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from kafkeep.contents.ahead import Ranges, open_ahead
from kafkeep.errors import PreflightError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin import Admin, OffsetSpec
from kafkeep.kafka.exact import Transactions
from kafkeep.kafka.rewrite import ReadyBatch
from kafkeep.kafka.schema_ids import IdRewriter
from kafkeep.kafka.wire import Wire, wire_for
from kafkeep.restore.exact import ExactSender, Filler
from kafkeep.restore.send import send_all
from kafkeep.restore.steps import ExactPartition, Send, Trim
from kafkeep.restore.tail import check_hole, check_tail
from kafkeep.restore.task import (
    RestoreBundle,
    TargetWork,
    end_offsets,
    pace_for,
    read_pieces,
    rewriter_of,
    with_ids,
)
from kafkeep.store.open import open_store


def restore_exactly(bundle: RestoreBundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Write every partition of the bundle, each record at its old offset; yield their reports.

    Safe to run again, also beside a late attempt of itself: first the transactions of that one
    are shut out, then the target's end says how far it came.
    """
    failpoint("task.start")
    assert bundle.exact is not None
    wire = wire_for(bundle.kafka)
    admin = Admin(wire)
    transactions = None
    if bundle.exact.transactional_id is not None:
        transactions = Transactions(admin, bundle.exact.transactional_id)
        transactions.begin_anew()
        failpoint("exact.begun")
    keys = [(work.topic, work.partition) for work in bundle.work]
    starts = admin.offsets(keys, OffsetSpec.EARLIEST)
    ends = admin.offsets(keys, OffsetSpec.LATEST)
    rewriter = rewriter_of(bundle)
    with open_ahead(open_store(bundle.archive, bundle.storage)) as store:
        senders = [_sender(store, work, bundle, rewriter) for work in bundle.work]
        for work, sender in zip(bundle.work, senders, strict=True):
            _check_there(wire, work, sender, starts[sender.key], ends[sender.key])
            sender.begin(ends[sender.key])
        send_all(
            wire,
            list(senders),
            end_offsets=partial(end_offsets, admin),
            topic_ids={work.topic: work.topic_id for work in bundle.work},
            pace=pace_for(bundle.rate_bytes),
            between=Filler(admin, senders, transactions),
        )
    for sender in senders:
        yield "partition", _report(sender)
    if rewriter is not None:
        yield "schema ids", rewriter.to_json()


def _sender(
    store: Ranges, work: TargetWork, bundle: RestoreBundle, rewriter: IdRewriter | None
) -> ExactSender:
    assert bundle.exact is not None and work.pieces is not None
    read = with_ids(partial(read_pieces, store, work, bundle), rewriter, work)
    contents = ExactPartition(work.pieces, work.end, bundle.exact.tombstones, read)
    return ExactSender(work.topic, work.partition, work.place, contents=contents)


def _check_there(wire: Wire, work: TargetWork, sender: ExactSender, start: int, end: int) -> None:
    """Refuse a target that is not what an earlier attempt of this restore left."""
    contents = sender.contents
    if end > contents.goal:
        raise sender.past(end, contents.goal)
    if end == 0:
        return
    if start not in (0, contents.first) or (start == 0 and end > contents.first > 0):
        raise PreflightError(
            f"{work.topic}-{work.partition} begins at {start}, not where this restore left it",
            hint="Delete the topic and run the restore again.",
        )
    if end <= contents.first:
        return
    step = next(step for step in contents.steps(end - 1) if not isinstance(step, Trim))
    where = (wire, work.topic, work.partition)
    if isinstance(step, Send):
        ready = ReadyBatch(step.body, step.records, end - 1, end - 2 + step.records)
        check_tail(*where, topic_id=work.topic_id, last_offset=end - 1, expected=iter((ready,)))
    else:
        check_hole(*where, topic_id=work.topic_id, offset=end - 1)


def _report(sender: ExactSender) -> dict[str, Any]:
    return {
        "topic": sender.topic,
        "partition": sender.partition,
        "records": sender.records,
        "bytes": sender.bytes,
        "end": sender.end,
        "filled": sender.filled,
        "holes": sender.holes,
    }
