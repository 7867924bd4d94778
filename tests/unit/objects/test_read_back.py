"""What a sink's objects hold, and what readers say when they hold less, or something else."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from tests.support.stored_sinks import PID, Stored, write_sink

from kafkeep.archive.commit import Changes, Intent, PlannedRange, TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.log import CommitLog
from kafkeep.archive.offset_runs import OffsetRuns
from kafkeep.archive.view import load_view
from kafkeep.errors import DamagedError, PreflightError
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.layout import Record
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.maintenance.inspect.cat import CatOptions, iter_lines, json_line
from kafkeep.maintenance.inspect.info import load_info
from kafkeep.maintenance.inspect.inventory import load_usage
from kafkeep.maintenance.verify.finding import FindingKind, Severity, VerifyReport
from kafkeep.maintenance.verify.verify import verify
from kafkeep.objects import prefetch as spooling
from kafkeep.objects import records as merging
from kafkeep.objects.choose_log import choose_log, what_is_missing
from kafkeep.objects.encode_batches import iter_ready_batches
from kafkeep.objects.records import iter_records
from kafkeep.objects.sink import open_file
from kafkeep.objects.sink.read_windows import iter_windows, with_companions
from kafkeep.objects.sink.spec import ReadOptions, load_read_options
from kafkeep.restore.read import iter_ready
from kafkeep.store.memory import MemoryStore

BY_FIELD = {"partitioner.class": "FieldPartitioner", "partition.field.name": "g"}
WITH_ALL = {"store.kafka.keys": "true", "store.kafka.headers": "true"}
JSON = {"format.class": "json"}


def records(count: int, groups: int = 2) -> list[Record]:
    return [
        Record(n, 1000 + n, b"k%d" % n, b'{"g":%d,"n":%d}' % (n % groups, n), [(b"h", b"%d" % n)])
        for n in range(count)
    ]


def rows(stored: Stored, entries: Sequence[Entry] | None = None) -> list[dict[str, Any]]:
    chosen = stored.entries if entries is None else entries
    batches = iter_records(stored.store, chosen, options=stored.options)
    return [row for batch in batches for row in batch.to_pylist()]


def swap(store: MemoryStore, key: str, body: bytes) -> None:
    store.delete(key)
    store.put_new(key, body)


def in_log(stored: Stored, name: str = "sink", topic: str = "t") -> None:
    """Commit what was written, as a backup does: an intent, then the entries."""
    log = CommitLog.open(stored.store, name, writer=uuid.uuid4().hex, now_ms=lambda: 5)
    end = max(entry.range.end for entry in stored.entries)
    planned = PlannedRange(partition_id=PID, topic_id="id", range=OffsetRange(0, end))
    spec = stored.options.spec
    if spec is not None:
        options = {"sink": dict(spec.texts), "closes": {}, "keeps_aborted": False}
        log.append(Changes(intent=Intent(ranges=(planned,), options=options, at_ms=5)))
    info = TopicInfo(
        topic=topic, incarnation=1, topic_id="id", partitions=1, replication_factor=1, configs={}
    )
    log.append(
        Changes(
            entries=stored.entries,
            positions={PID: end},
            topics=(info,),
            closes_intent=spec is not None,
        )
    )


# -- windows ---------------------------------------------------------------------------------


def test_a_window_has_a_file_for_each_directory_with_what_lies_beside_it() -> None:
    stored = write_sink(records(8), {**JSON, **BY_FIELD, **WITH_ALL, "flush.size": "4"})
    first, second = iter_windows(stored.entries)
    assert (first.range, second.range) == (OffsetRange(0, 4), OffsetRange(4, 8))
    assert (first.records, len(first.entries)) == (4, 6)
    for file in first.files():
        assert file.keys is not None and file.headers is not None
        assert {e.key.rsplit("/", 1)[0] for e in file.entries} == {file.main.key.rsplit("/", 1)[0]}


@pytest.fixture
def few_runs() -> Any:
    with mock.patch.object(open_file, "MAX_RUNS", 2):
        yield


def test_files_without_known_offsets_are_paired_by_name(few_runs: None) -> None:
    stored = write_sink(records(30, groups=3), {**JSON, **BY_FIELD, **WITH_ALL})
    assert not any(entry.runs for entry in stored.entries)
    found = rows(stored)
    assert [row["offset"] for row in found] == [-1] * 30
    for row in found:
        n = json.loads(row["value"])["n"]
        assert (row["key"], row["headers"][0]["value"]) == (b"k%d" % n, b"%d" % n)
    # Each directory in its own order, one after the other: the same every time.
    groups = [json.loads(row["value"])["g"] for row in found]
    assert groups == sorted(groups) and found == rows(stored)
    lost = what_is_missing(stored.entries)
    assert "offsets of 30 records are not known: only between which two they lie" in lost
    assert "the order of 30 records is known inside of each directory alone" in lost


def test_a_name_with_one_more_zero_still_belongs_to_its_file(few_runs: None) -> None:
    options = {**JSON, **BY_FIELD, **WITH_ALL, "keys.format.class": "json"}
    store = MemoryStore(uuid.uuid4().hex)
    store.put_new("topics/t/g=0/t+0+0000000000.keys.json", b"somebody else's")
    stored = write_sink(records(30), options, store=store)
    assert "topics/t/g=0/t+0+00000000000.keys.json" in {e.key for e in stored.entries}
    assert all(row["key"] == b"k%d" % json.loads(row["value"])["n"] for row in rows(stored))


def test_offsets_stay_known_when_each_row_is_a_whole_record(few_runs: None) -> None:
    by_time = {
        "partitioner.class": "TimeBasedPartitioner",
        "path.format": "'s'=ss",
        "partition.duration.ms": "1000",
        "timestamp.extractor": "Record",
    }
    mixed = [record._replace(timestamp=record.offset % 3 * 1000) for record in records(30)]
    stored = write_sink(mixed, {"format.class": "parquet", **by_time})
    assert len(stored.entries) == 3 and not any(entry.runs for entry in stored.entries)
    assert [row["offset"] for row in rows(stored)] == list(range(30))
    assert what_is_missing(stored.entries) == ()


def test_values_go_with_their_keys() -> None:
    stored = write_sink(records(8), {**JSON, **BY_FIELD, **WITH_ALL})
    lost = next(e.key for e in stored.entries if e.view == "keys" and "g=1" in e.key)
    gone = with_companions(stored.entries, {lost})
    assert len(gone) == 3 and all("g=1" in key for key in gone)
    left = [entry for entry in stored.entries if entry.key not in gone]
    assert [row["offset"] for row in rows(stored, left)] == [0, 2, 4, 6]


def test_keys_without_values_in_the_log_are_damage() -> None:
    stored = write_sink(records(4), {**JSON, **WITH_ALL})
    beside = [entry for entry in stored.entries if entry.view != "value"]
    with pytest.raises(DamagedError, match="the log has no values for these keys"):
        rows(stored, beside)


# -- reading ---------------------------------------------------------------------------------


def test_records_come_by_offset_however_small_the_pieces_are() -> None:
    stored = write_sink(records(200, groups=7), {**JSON, **BY_FIELD})
    with mock.patch.object(merging, "MERGED_BYTES", 300):
        assert [row["offset"] for row in rows(stored)] == list(range(200))


def test_large_objects_are_read_from_disk() -> None:
    stored = write_sink(records(50), {"format.class": "parquet"})
    with (
        mock.patch("kafkeep.objects.records.LEAST_MEMORY_BYTES", 10),
        mock.patch("kafkeep.objects.records.MEMORY_BYTES", 10),
        mock.patch.object(spooling, "PIECE_BYTES", 100),
    ):
        assert [row["offset"] for row in rows(stored)] == list(range(50))


def test_a_changed_byte_is_found_before_a_record_is_given() -> None:
    stored = write_sink(records(10), JSON)
    key = stored.entries[0].key
    swap(stored.store, key, stored.store.get(key).replace(b'"n":7', b'"n":8'))
    with pytest.raises(DamagedError, match="SHA-256") as caught:
        next(iter(iter_records(stored.store, stored.entries)))
    assert key in caught.value.message


def test_a_missing_object_is_named_with_what_it_held() -> None:
    stored = write_sink(records(10), JSON)
    stored.store.delete(stored.entries[0].key)
    with pytest.raises(DamagedError, match="is missing: it held 10 records of t-0, offsets 0 to 9"):
        rows(stored)


@pytest.mark.parametrize("kind", ["json", "avro", "parquet"])
def test_another_number_of_rows_than_the_log_has_is_damage(kind: str) -> None:
    stored = write_sink(records(10), {"format.class": kind, "value.converter": "StringConverter"})
    (entry,) = stored.entries
    for count in (9, 11):
        runs = OffsetRuns.of([(0, count)])
        wrong = replace(entry, records=count, range=OffsetRange(0, 20), runs=runs)
        with pytest.raises(DamagedError, match=f"the log says {count}|more than {count}"):
            rows(stored, [wrong])


def test_bytes_that_hold_their_separator_cannot_be_distinguished() -> None:
    stored = write_sink([Record(0, 1, None, b"a\nb"), Record(1, 1, None, b"c")], BYTES)
    with pytest.raises(PreflightError, match="cannot be separated"):
        rows(stored)
    alone = write_sink([Record(0, 1, None, b"a\nb")], BYTES)
    assert rows(alone)[0]["value"] == b"a\nb"


BYTES = {"format.class": "bytes"}


def test_the_separator_is_found_in_the_log() -> None:
    stored = write_sink(records(5), {**BYTES, "format.bytearray.separator": "||"})
    in_log(stored)
    told = load_read_options(stored.store, load_view(stored.store, "sink"))
    assert told == stored.options
    with pytest.raises(PreflightError):
        rows(replace(stored, options=ReadOptions()))


def test_a_json_null_is_no_value_only_where_tombstones_were_written() -> None:
    null = [Record(0, 1, b"k", b"null"), Record(1, 2, b"k", b'"null"')]
    plain = write_sink(null, JSON)
    assert [row["value"] for row in rows(plain)] == [b"null", b'"null"']
    written = write_sink(null, {**JSON, "behavior.on.null.values": "write"})
    assert [row["value"] for row in rows(written)] == [None, b'"null"']
    assert "a JSON null and no value at all are alike" in " ".join(
        what_is_missing(written.entries, written.options)
    )


def test_the_time_is_known_where_an_object_has_one_record() -> None:
    stored = write_sink(records(3), {**BYTES, "flush.size": "1"})
    assert [row["timestamp"] for row in rows(stored)] == [1000, 1001, 1002]
    assert not any("timestamps" in lost for lost in what_is_missing(stored.entries))


@pytest.mark.parametrize(
    ("converter", "value"),
    [
        ("LongConverter", b"\x80" + bytes(7)),
        ("IntegerConverter", b"\xff\xff\xff\xfe"),
        ("DoubleConverter", b"\x7f\xf0" + bytes(6)),
        ("BooleanConverter", b"\x01"),
    ],
)
@pytest.mark.parametrize("kind", ["json", "avro", "parquet"])
def test_numbers_come_back_in_their_bytes(kind: str, converter: str, value: bytes) -> None:
    package = "org.apache.kafka.connect.converters."
    stored = write_sink(
        [Record(0, 1, None, value)],
        {"format.class": kind, "value.converter": package + converter},
    )
    assert rows(stored)[0]["value"] == value


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_json_values_with_schemas_come_back_with_them(kind: str) -> None:
    document = {
        "schema": {
            "type": "struct",
            "optional": False,
            "fields": [{"field": "a", "type": "int32", "optional": False}],
        },
        "payload": {"a": 5},
    }
    stored = write_sink(
        [Record(0, 1, None, json.dumps(document).encode())],
        {"format.class": kind, "value.converter": "JsonConverter"},
    )
    found = json.loads(rows(stored)[0]["value"])
    assert found["payload"] == {"a": 5}
    assert found["schema"]["fields"][0]["type"] == "int32"


def test_values_of_an_unknown_registry_are_given_as_json_with_a_note() -> None:
    document = b"""{"schema":{"type":"struct","optional":false,"fields":[
        {"field":"a","type":"int32","optional":false}]},"payload":{"a":5}}"""
    options = {"format.class": "avro", "value.converter": "JsonConverter"}
    made = write_sink([Record(0, 1, None, document)], options)
    entries = [replace(made.entries[0], converter="AvroConverter")]
    found = [row for batch in iter_records(made.store, entries) for row in batch.to_pylist()]
    assert found[0]["value"] == b'{"a":5}'
    said = "values of AvroConverter are restored as JSON texts: its registry is not known"
    assert said in what_is_missing(entries)


def test_a_record_larger_than_a_batch_is_a_batch_of_its_own() -> None:
    wanted = [Record(n, n, b"k", bytes([n]) * size) for n, size in enumerate([10, 5000, 20, 30])]
    stored = write_sink(wanted, {"format.class": "parquet"})
    batches = iter_records(stored.store, stored.entries)
    ready = list(iter_ready_batches(batches, target_bytes=1000))
    assert [batch.records for batch in ready] == [1, 1, 2]
    values = [
        value
        for batch in ready
        for value in decode(scan_batches(bytes(batch.body))).column("value").to_pylist()
    ]
    assert values == [record.value for record in wanted]


# -- what is said of an archive --------------------------------------------------------------


def damages(report: VerifyReport) -> list[tuple[FindingKind, str]]:
    return [(f.kind, f.key) for f in report.findings if f.severity is Severity.DAMAGE]


@pytest.fixture
def stored() -> Stored:
    made = write_sink(records(20), {**JSON, **BY_FIELD, **WITH_ALL, "flush.size": "10"})
    in_log(made)
    return made


def test_verify_finds_a_sinks_archive_intact_and_counts_records_once(stored: Stored) -> None:
    for deep in (False, True):
        report = verify(stored.store, ["sink"], deep=deep)
        assert (report.intact, report.records, report.objects) == (True, 20, 12)
        assert report.findings == ()


def test_verify_names_each_object_that_is_missing_or_changed(stored: Stored) -> None:
    gone = next(e for e in stored.entries if e.view == "keys")
    changed = next(e for e in stored.entries if e.view == "headers")
    stored.store.delete(gone.key)
    swap(stored.store, changed.key, stored.store.get(changed.key)[:-1] + b"!")
    report = verify(stored.store, ["sink"])
    assert set(damages(report)) == {
        (FindingKind.MISSING, gone.key),
        (FindingKind.ALTERED, changed.key),
    }


@pytest.mark.parametrize("format", ["json", "avro", "parquet", "bytes"])
def test_verify_finds_forged_counts_of_a_sink_without_deep(format: str) -> None:
    converter = "ByteArrayConverter" if format == "bytes" else "JsonConverter"
    options = {"format.class": format, "value.converter": converter}
    document = b'{"schema":{"type":"int64"},"payload":7}'
    made = write_sink([Record(n, n, None, document) for n in range(4)], options)
    in_log(made, "true")
    assert verify(made.store, ["true"]).findings == ()
    forged = replace(made.entries[0], range=OffsetRange(0, 2**61), records=2**61)
    in_log(replace(made, entries=(forged,)), "forged")
    report = verify(made.store, ["forged"])
    assert damages(report) == [(FindingKind.MISCOUNTED, forged.key)]
    assert "rows, the log says 2305843009213693952" in report.findings[0].message


def test_verify_believes_empty_rows_of_bytes_without_a_separator() -> None:
    options = {
        "format.class": "bytes",
        "value.converter": "ByteArrayConverter",
        "format.bytearray.separator": "",
    }
    made = write_sink([Record(n, n, None, b"abc" if n == 2 else b"") for n in range(9)], options)
    in_log(made, "empty")
    assert verify(made.store, ["empty"]).findings == ()


def test_verify_asks_once_for_an_object_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"format.class": "json", "value.converter": "JsonConverter"}
    options["value.converter.schemas.enable"] = "false"
    made = write_sink([Record(0, 0, None, b"{}")], options)
    in_log(made, "gone")
    made.store.delete(made.entries[0].key)
    asked: list[str] = []
    head = made.store.head
    monkeypatch.setattr(made.store, "head", lambda key: (asked.append(key), head(key))[1])
    report = verify(made.store, ["gone"])
    assert damages(report) == [(FindingKind.MISSING, made.entries[0].key)]
    assert asked.count(made.entries[0].key) == 1


def test_verify_misses_a_part_that_the_log_lacks(stored: Stored) -> None:
    other = replace(stored, store=stored.store, entries=stored.entries[1:])
    in_log(other, "cut")
    report = verify(stored.store, ["cut"])
    assert [kind for kind, _ in damages(report)] == [FindingKind.MISCOUNTED]
    assert report.lost_offsets == 10


def test_deep_verify_counts_rows_and_reads_json(stored: Stored) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    body = b'{"n":1}\n{"n":\n'
    made = write_sink(records(2), JSON)
    (entry,) = made.entries
    digest = hashlib.sha256(body).hexdigest()
    store.put_new(entry.key, body)
    entry = replace(entry, size_bytes=len(body), sha256=digest)
    in_log(Stored(store, (entry,), made.options))
    assert verify(store, ["sink"]).intact
    report = verify(store, ["sink"], deep=True)
    assert damages(report) == [(FindingKind.UNDECODABLE, entry.key)]
    assert "line 2 is not JSON" in report.findings[0].message


def test_bytes_that_cannot_be_distinguished_are_a_warning_and_no_damage() -> None:
    made = write_sink([Record(0, 1, None, b"a\nb"), Record(1, 1, None, b"c")], BYTES)
    in_log(made)
    report = verify(made.store, ["sink"], deep=True)
    assert report.intact
    assert [f.severity for f in report.findings] == [Severity.WARNING]


def test_info_and_du_count_records_once_and_say_what_is_missing(stored: Stored) -> None:
    (log,) = load_info(stored.store, ["sink"])
    (topic,) = log.topics
    assert (topic.records, topic.holes, topic.objects) == (20, 0, 12)
    assert topic.formats == ("json",)
    assert topic.missing == ("timestamps are not in JSON objects: restored records have none",)
    (usage,) = load_usage(stored.store, ["sink"]).topics
    assert (usage.records, usage.formats) == (20, ("json",))


def test_cat_prints_the_records_of_a_sink_by_offset(stored: Stored) -> None:
    lines = b"".join(iter_lines(stored.store, "sink", CatOptions(), json_line)).splitlines()
    found = [json.loads(line) for line in lines]
    assert [line["offset"] for line in found] == list(range(20))
    assert found[3] == {
        "topic": "t",
        "partition": 0,
        "offset": 3,
        "tstype": "create",
        "ts": -1,
        "headers": ["h", "3"],
        "key": "k3",
        "payload": '{"g":1,"n":3}',
    }


def test_cat_gives_records_of_unknown_time_from_objects_that_may_have_them(stored: Stored) -> None:
    late = CatOptions(from_ms=1015)
    lines = b"".join(iter_lines(stored.store, "sink", late, json_line)).splitlines()
    assert [json.loads(line)["offset"] for line in lines] == list(range(10, 20))
    assert not list(iter_lines(stored.store, "sink", CatOptions(from_ms=1020), json_line))


def test_the_log_that_loses_least_is_read() -> None:
    store = MemoryStore(uuid.uuid4().hex)
    in_log(write_sink(records(5), {**JSON, "topics.dir": "lossy"}, store=store), "lossy")
    in_log(write_sink(records(5), {"format.class": "parquet"}, store=store), "whole")
    assert choose_log(store) == "whole"
    assert choose_log(store, "lossy") == "lossy"
    other = {"format.class": "parquet", "topics.dir": "twice"}
    in_log(write_sink(records(5), other, store=store), "twice")
    with pytest.raises(PreflightError, match="twice, whole"):
        choose_log(store)


class Slow:
    """Counts who asks for what."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.asked: list[str] = []

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self.asked.append(key)
        return self._store.get_range(key, start, end)


def test_each_object_is_fetched_once_when_read_ahead() -> None:
    made = write_sink(records(300, groups=7), {**JSON, **BY_FIELD, **WITH_ALL, "flush.size": "20"})
    slow: Any = Slow(made.store)
    found = sum(batch.records for batch in iter_ready(slow, made.entries, options=made.options))
    assert found == 300
    assert sorted(slow.asked) == sorted(entry.key for entry in made.entries)


def test_a_missing_object_is_reported_when_its_turn_comes() -> None:
    made = write_sink(records(40), {**JSON, "flush.size": "10"})
    made.store.delete(made.entries[2].key)
    found = 0
    with pytest.raises(DamagedError, match="is missing: it held 10 records"):
        for batch in iter_ready(made.store, made.entries):
            found += batch.records
    assert found == 0  # 40 small records are one batch, which is not complete
