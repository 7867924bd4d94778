"""Records of a log changed on their way back: what comes out, in which order, at which offset."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Mapping, Sequence

import pytest
from tests.support.stored_sinks import Stored, write_sink

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.packed_entries import PackedEntries
from kafkeep.check_result import CheckStatus
from kafkeep.errors import PreflightError, UsageError
from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import min_timestamps, scan_batches
from kafkeep.objects.segment.format import SegmentEncoder
from kafkeep.objects.sink.spec import NO_OPTIONS
from kafkeep.options.option import ConfigErrors
from kafkeep.options.record_changes import ChangeOptions
from kafkeep.options.restore import RestoreOptions, parse_filter
from kafkeep.options.unlogged import UnloggedOptions, changes_of_log
from kafkeep.restore.groups.count_records import count_records_before
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan, plan_partition, restore_id
from kafkeep.restore.routing.plan import check_routing
from kafkeep.restore.routing.routing import Routing, routing_of
from kafkeep.restore.routing.rows import SourceRows, iter_routed_batches
from kafkeep.restore.selection import TimeRange, whole_slices
from kafkeep.store.memory import MemoryStore

SMT = "org.apache.kafka.connect.transforms."
JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
MASK = {
    "transforms": "mask",
    "transforms.mask.type": f"{SMT}MaskField$Value",
    "transforms.mask.fields": "card",
}
NO_BOTS = {
    "transforms": "drop",
    "transforms.drop.type": f"{SMT}Filter",
    "transforms.drop.predicate": "bot",
    "predicates": "bot",
    "predicates.bot.type": f"{SMT}predicates.HasHeaderKey",
    "predicates.bot.name": "bot",
}
COUNT = 40


def records() -> list[Record]:
    """Return records with holes between them, keys that are no text, and headers on some."""
    return [
        Record(
            i + i // 7,
            1000 + i,
            b"\xff\xfe%d" % i if i % 4 else None,
            b'{"n": %d,  "card":"4929-%d"}' % (i, i) if i % 9 else None,
            [(b"bot", b"yes")] if i % 5 == 0 else [],
        )
        for i in range(COUNT)
    ]


def segment(sizes: Sequence[int] = (3, 11), codec: Codec = Codec.NONE) -> Stored:
    """Store the records in two segments, in batches of these sizes in turn."""
    store, entries, at = MemoryStore(), [], 0
    made = records()
    for part in (made[: COUNT // 2], made[COUNT // 2 :]):
        writer, body, turn, done = SegmentEncoder(frame_bytes=100), b"", 0, 0
        while done < len(part):
            size = sizes[turn % len(sizes)]
            batches = scan_batches(build_batch(part[done : done + size], codec=codec))
            body += b"".join(writer.add(batches, min_timestamps(batches)))
            done, turn = done + size, turn + 1
        last, summary = writer.finish()
        body += last
        key, end = f"topics/t/{len(entries)}", part[-1].offset + 1
        store.put_new(key, body)
        entries.append(
            Entry(
                key=key, partition_id=PartitionId("t", 1, 0), topic_id="",
                range=OffsetRange(at, end), records=summary.records,
                min_timestamp=summary.min_timestamp, max_timestamp=summary.max_timestamp,
                size_bytes=len(body), raw_bytes=summary.raw_bytes, format="segment", codec="zstd",
                sha256=hashlib.sha256(body).hexdigest(), index=summary.index,
            )
        )  # fmt: skip
        at = end
    return Stored(store, tuple(entries), NO_OPTIONS)


def read(
    stored: Stored, told: Mapping[str, str], skip: int = 0, **routing: object
) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Return offset, time, key and value of what a target partition would get."""
    made = Routing(changes=ChangeOptions.of(told), **routing)  # type: ignore[arg-type]
    source = SourceRows(stored.store, whole_slices(stored.entries), options=stored.options)
    found = []
    for batch in iter_routed_batches(source, made, skip):
        rows = decode(scan_batches(batch.body)).to_pylist()
        offsets = batch.offsets
        if offsets is None:
            offsets = range(batch.first_offset, batch.last_offset + 1)  # type: ignore[assignment]
        for row, offset in zip(rows, offsets, strict=True):
            found.append((int(offset), row["timestamp"], row["key"], row["value"]))
    return found


WITHOUT_TOMBSTONES = {
    **MASK,
    "transforms.mask.predicate": "gone",
    "transforms.mask.negate": "true",
    "predicates": "gone",
    "predicates.gone.type": f"{SMT}predicates.RecordIsTombstone",
}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_values_of_segments_are_masked_and_all_else_stays(codec: Codec) -> None:
    found = read(segment(codec=codec), {**WITHOUT_TOMBSTONES, **JSON})
    assert [row[:3] for row in found] == [(r.offset, r.timestamp, r.key) for r in records()]
    for row, record in zip(found, records(), strict=True):
        if record.value is None:
            assert row[3] is None
        else:
            assert json.loads(row[3] or b"") == {**json.loads(record.value), "card": ""}


@pytest.mark.parametrize("told", [{**WITHOUT_TOMBSTONES, **JSON}, NO_BOTS])
def test_every_resumption_gives_the_rest_of_the_same_records(told: dict[str, str]) -> None:
    whole = read(segment(), told)
    assert whole == read(segment((1,)), told) == read(segment((40,)), told)
    for skip in range(len(whole) + 1):
        assert read(segment((2, 5)), told, skip) == whole[skip:]


def test_a_key_made_of_the_value_leaves_the_value_as_it_was() -> None:
    told = {
        "transforms": "key,bare",
        "transforms.key.type": f"{SMT}ValueToKey",
        "transforms.key.fields": "n",
        "transforms.bare.type": f"{SMT}ExtractField$Key",
        "transforms.bare.field": "n",
        **JSON,
    }
    part = [r for r in records() if r.value is not None]
    found = read(segment(), {**NO_TOMBSTONES, **told, "transforms": "drop,key,bare"})
    assert [(row[2], row[3]) for row in found] == [
        (str(json.loads(r.value or b"")["n"]).encode(), r.value) for r in part
    ]


NO_TOMBSTONES = {
    "transforms.drop.type": f"{SMT}Filter",
    "transforms.drop.predicate": "gone",
    "predicates": "gone",
    "predicates.gone.type": f"{SMT}predicates.RecordIsTombstone",
}


def test_a_filter_of_a_restore_sees_what_transforms_made() -> None:
    told = {
        "transforms": "tag",
        "transforms.tag.type": f"{SMT}InsertHeader",
        "transforms.tag.header": "from",
        "transforms.tag.value.literal": "archive",
        "transforms.tag.predicate": "bot",
        **{key: text for key, text in NO_BOTS.items() if key.startswith("predicates")},
    }
    found = read(segment(), told, filter=parse_filter("header:from=archive"), shift_ms=5)
    assert [row[:2] for row in found] == [
        (r.offset, r.timestamp + 5) for r in records() if r.headers
    ]


def test_groups_stand_before_the_same_record_where_others_were_dropped() -> None:
    stored, routing = segment(), Routing(changes=ChangeOptions.of(NO_BOTS))
    plan = PartitionPlan(0, PackedEntries.of(stored.entries), times=TimeRange())
    asked = [0, 1, 8, 23, 100]
    found = count_records_before(
        stored.store, plan, asked, restore_aborted=False, options=NO_OPTIONS, routing=routing
    )
    kept = [r.offset for r in records() if not r.headers]
    assert found == {at: sum(offset < at for offset in kept) for at in asked}
    masking = Routing(changes=ChangeOptions.of({**MASK, **JSON}))
    every = count_records_before(
        stored.store, plan, asked, restore_aborted=False, options=NO_OPTIONS, routing=masking
    )
    assert every == {at: sum(r.offset < at for r in records()) for at in asked}


SINKS = {
    "json": {"format.class": "json", **JSON},
    "avro": {"format.class": "avro", **JSON},
    "envelope": {"format.class": "parquet", "value.converter": "ByteArrayConverter"},
}


@pytest.mark.parametrize("kind", SINKS)
def test_objects_of_a_sink_are_masked(kind: str) -> None:
    options = {**SINKS[kind], "flush.size": "7", "store.kafka.keys": "true"}
    options |= {"key.converter": "ByteArrayConverter"}
    wanted = [r for r in records() if r.value is not None]
    stored = write_sink(wanted, options)
    told = {**MASK, **JSON} if kind == "envelope" else MASK
    found = read(stored, told)
    assert [(row[0], row[2]) for row in found] == [(r.offset, r.key) for r in wanted]
    for row, record in zip(found, wanted, strict=True):
        assert json.loads(row[3] or b"") == {**json.loads(record.value or b""), "card": ""}


def test_what_a_sink_inserted_becomes_key_and_time_and_goes() -> None:
    """The sink adds where each record was; the restore makes keys and times of it."""
    insert = f"{SMT}InsertField$Value"
    sink = {
        "format.class": "json",
        "flush.size": "6",
        **JSON,
        "transforms": "o,p,t",
        "transforms.o.type": insert,
        "transforms.o.offset.field": "offset",
        "transforms.p.type": insert,
        "transforms.p.partition.field": "partition",
        "transforms.t.type": insert,
        "transforms.t.timestamp.field": "ts",
    }
    wanted = [r for r in records() if r.value is not None]
    back = {
        "timestamp.extractor": "RecordField",
        "timestamp.field": "ts",
        "key.converter": "StringConverter",
        "transforms": "key,bare,drop",
        "transforms.key.type": f"{SMT}ValueToKey",
        "transforms.key.fields": "card",
        "transforms.bare.type": f"{SMT}ExtractField$Key",
        "transforms.bare.field": "card",
        "transforms.drop.type": f"{SMT}ReplaceField$Value",
        "transforms.drop.exclude": "offset,partition,ts",
    }
    found = read(write_sink(wanted, sink), back)
    assert [(row[0], row[1]) for row in found] == [(r.offset, r.timestamp) for r in wanted]
    for row, record in zip(found, wanted, strict=True):
        before = json.loads(record.value or b"")
        assert row[2] == before["card"].encode() and json.loads(row[3] or b"") == before


def test_a_record_that_cannot_be_changed_is_named() -> None:
    with pytest.raises(PreflightError, match=r"topics/t/0: offset 0: only Map"):
        read(segment(), {**MASK, **JSON})  # its first record is a tombstone


def plan_of(entries: Sequence[Entry], options: RestoreOptions) -> RestorePlan:
    info = TopicInfo(
        topic="t", incarnation=1, topic_id="", partitions=1, replication_factor=1, configs={}
    )
    routing = routing_of(options, entries)
    topic = TopicPlan(info, "t", (plan_partition(0, entries),), routing)
    return RestorePlan("id", "log", 1, (topic,), routing=routing)


def test_bytes_without_a_converter_are_not_parsed() -> None:
    entries = segment().entries
    options = RestoreOptions(changes=ChangeOptions.of(MASK))
    failed = [c for c in check_routing(plan_of(entries, options), options) if c.verdict == "fail"]
    assert [check.verdict for check in failed] == [CheckStatus.FAIL]
    assert "transforms.mask (MaskField$Value) needs decoded values" in failed[0].what
    for told in (NO_BOTS, {**MASK, **JSON}):
        options = RestoreOptions(changes=ChangeOptions.of(told))
        checks = check_routing(plan_of(entries, options), options)
        assert [check.verdict for check in checks] == [CheckStatus.PASS]


def test_a_time_from_a_field_is_for_objects_that_hold_none() -> None:
    times = {"timestamp.extractor": "RecordField", "timestamp.field": "ts"}
    options = RestoreOptions(changes=ChangeOptions.of(times))
    plan = plan_of(segment().entries, options)
    assert plan.topics[0].routing == Routing()
    assert "the field ts is not used" in check_routing(plan, options)[0].what


def test_what_makes_no_sense_over_a_log_is_refused_by_name() -> None:
    refused = {
        "topics.dir": {"topics.dir": "d", **MASK},
        "header.converter": {"header.converter": "StringConverter", **MASK},
        "value.converter has no effect": JSON,
        "original timestamps": {"timestamp.extractor": "Wallclock", **MASK},
        "has no effect without transforms": {"timestamp.field": "ts"},
    }
    for what, told in refused.items():
        with pytest.raises(UsageError, match=what):
            changes_of_log(UnloggedOptions.parse(told), "archive")
    assert changes_of_log(None, "archive") is None
    with pytest.raises(ConfigErrors, match="renamed"):
        router = {"transforms": "r", "transforms.r.type": f"{SMT}TimestampRouter"}
        ChangeOptions.of(router)
    with pytest.raises(UsageError, match="exact-offsets cannot"):
        RestoreOptions(exact_offsets=True, changes=ChangeOptions.of(NO_BOTS))


def test_a_restore_is_named_by_what_it_changes_but_not_by_secrets() -> None:
    def name(told: Mapping[str, str]) -> str:
        options = RestoreOptions(changes=ChangeOptions.of(told) if told else None)
        return restore_id("archive", "log", options, "cluster")

    avro = {
        **MASK,
        "value.converter": "AvroConverter",
        "value.converter.schema.registry.url": "http://registry:8081",
        "value.converter.basic.auth.credentials.source": "USER_INFO",
        "value.converter.basic.auth.user.info": "me:none",
    }
    login = "value.converter.basic.auth.user.info"
    assert len({name({}), name(MASK), name(avro)}) == 3
    assert name({**avro, login: "me:one"}) == name({**avro, login: "me:two"})
    made = ChangeOptions.of({**avro, login: "me:one"})
    assert "me:one" not in repr(made) + str(made.to_json())
    assert pickle.loads(pickle.dumps(made)) == made
