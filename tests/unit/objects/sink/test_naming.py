"""Names that a store does not take are known before an object has one: their records are bad."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.names import KeyLimits, check_key
from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import RecordError
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.objects.range_writer import Chunk, Uploads
from kafkeep.objects.sink.dead_letters import DeadLetterQueue
from kafkeep.objects.sink.naming import MAX_NAMES, NameCheck, ObjectOrigin, object_key
from kafkeep.objects.sink.spec import RotateReason
from kafkeep.objects.sink.writer import SinkWriter
from kafkeep.options.sink.naming import NameFacts, NamingOptions
from kafkeep.options.sink.sink import SinkOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.store.local.store import LocalStore
from kafkeep.store.memory import MemoryStore
from kafkeep.store.s3.store import S3Store

JSON = {"format.class": "json", "errors.tolerance": "all"}
LONG = "x" * 340
SOURCE = PartitionId("t", 1, 0)
RAW = {"partition.path.encoding": "raw"}
ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"
LAYOUTS = (
    NamingOptions(),
    NamingOptions(topics_dir="", directory_delim="--", file_delim="__", pad_width=40),
    NamingOptions(pad_width=0),
    NamingOptions(
        name_template="{{topic}}/{{path}}/{{first_timestamp}}{{last_timestamp}}"
        "/{{topic}}-{{partition:padding=true}}-{{start_offset}}-{{last_offset:padding=30}}"
        "{{extension}}"
    ),
    NamingOptions(topics_dir="", name_template="{{topic}}{{path:0}}/{{partition}}{{last_offset}}"),
)


def fields(count: int) -> dict[str, str]:
    names = ",".join(f"f{n}" for n in range(count))
    return {"partitioner.class": "field", "partition.field.name": names}


def record(offset: int, *values: str, key: str = "k") -> Record:
    value = {"n": offset, **{f"f{n}": text for n, text in enumerate(values)}}
    return Record(offset, 1_733_220_000_000, key.encode(), json.dumps(value).encode())


class Written:
    """What a sink made of records."""

    def __init__(
        self,
        records: Sequence[Record],
        options: dict[str, str],
        store: ObjectStore | None = None,
        source: PartitionId = SOURCE,
    ) -> None:
        sink = SinkOptions.parse({**JSON, **options})
        first, end = records[0].offset, records[-1].offset + 1
        planned = PlannedRange(partition_id=source, topic_id="id", range=OffsetRange(first, end))
        origin = ObjectOrigin(
            log_name="sink", planned=planned, plan="plan", naming=sink.naming, tags=sink.tags
        )
        self.store = store or MemoryStore()
        with Uploads() as uploads:
            writer = SinkWriter(self.store, origin, sink, uploads, at_ms=0, closes=RotateReason.END)
            writer.add(Chunk(scan_batches(build_batch(records)), end), first)
            writer.end(end, finished=True)
            uploads.wait()
            self.entries: list[Entry] = writer.finish()
        self.dead_letters: DeadLetterQueue = writer.dead_letters

    @property
    def bad(self) -> list[int]:
        return [letter.record.offset for letter in self.dead_letters.first]

    @property
    def numbers(self) -> list[int]:
        bodies = [self.store.get(entry.key) for entry in self.entries if entry.view == "value"]
        return sorted(json.loads(line)["n"] for body in bodies for line in body.splitlines())


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({**fields(16), "topics.dir": "d" * 100}, ["y" * 70] * 16),
        ({**fields(3), **RAW}, [LONG] * 3),
        ({**fields(1), **RAW}, ["x" * 970]),
        (
            {
                **fields(2),
                **RAW,
                "partitioner.class": "field-time",
                "path.format": "'at'=YYYY",
                "partition.duration.ms": "1000",
            },
            ["x" * 475] * 2,
        ),
        ({**fields(1), **RAW, "directory.delim": "--"}, ["x/" * 450]),
        (
            {
                **fields(1),
                **RAW,
                "object.name.template": "{{path}}/{{topic}}{{partition}}-{{start_offset}}",
            },
            ["x" * 980],
        ),
        (
            {
                **fields(1),
                **RAW,
                "transforms": "r",
                "transforms.r.type": ROUTER,
                "transforms.r.regex": ".*",
                "transforms.r.replacement": "r" * 200,
            },
            ["x" * 570],
        ),
    ],
    ids=["many fields", "long fields", "one field", "time", "delimiter", "template", "router"],
)
def test_a_name_that_would_be_too_long_makes_a_bad_record(
    options: dict[str, str], values: list[str]
) -> None:
    short = ["a"] * len(values)
    records = [record(n, *(values if n in (1, 4) else short)) for n in range(6)]
    written = Written(records, options)
    assert written.bad == [1, 4]
    assert written.numbers == [0, 2, 3, 5]
    told = written.dead_letters.first[0].error
    assert "bytes, but the store takes 1024" in told.message and len(told.message) < 400


def test_without_tolerance_it_stops_and_is_named() -> None:
    records = [record(n, LONG if n == 2 else "a", LONG, LONG) for n in range(4)]
    options = {**fields(3), **RAW, "errors.tolerance": "none"}
    with pytest.raises(RecordError, match=r"^t-0 offset 2: an object in 't/f0=xxx") as caught:
        Written(records, options)
    assert caught.value.hint


@pytest.mark.parametrize(
    "value", ["a/../b", "a//b", "a/", "a/./b", "a\\b", "a\tb", "a\x7fb", "a\x85b", "a\ufffeb"]
)
def test_a_raw_value_that_leads_elsewhere_or_to_no_name_makes_a_bad_record(value: str) -> None:
    written = Written([record(0, "a/b"), record(1, value), record(2, "")], {**fields(1), **RAW})
    assert (written.bad, written.numbers) == ([1], [0, 2])
    assert "no object can lie in" in written.dead_letters.first[0].error.message


@pytest.mark.parametrize("name", ["..", "a/../b", "a\nb", "n" * 970])
def test_the_name_of_a_schema_is_judged_too(name: str) -> None:
    def typed(offset: int, called: str) -> Record:
        kind = {"type": "struct", "name": called, "fields": [{"type": "int32", "field": "n"}]}
        value = {"schema": kind, "payload": {"n": offset}}
        return Record(offset, 0, None, json.dumps(value).encode())

    options = {
        **RAW,
        "s3.schema.partition.affix.type": "PREFIX",
        "value.converter": "JsonConverter",
    }
    written = Written([typed(0, "Order"), typed(1, name), typed(2, "Order")], options)
    bad = [] if name == ".." else [1]  # schema_name=.. is a name
    assert written.bad == bad
    assert written.numbers == [n for n in range(3) if n not in bad]


@pytest.mark.parametrize("encoding", ["raw", "percent"])
@pytest.mark.parametrize("letter", ["\u3000", "\xa0", "\u200d", "\xad", "\u200f", "\ue000"])
def test_invisible_characters_are_part_of_names(letter: str, encoding: str) -> None:
    options = {**fields(1), "partition.path.encoding": encoding}
    written = Written([record(0, f"a{letter}b")], options)
    assert [entry.key for entry in written.entries] == [
        f"topics/t/f0=a{letter}b/t+0+0000000000.json"
    ]


def test_a_tombstone_is_judged_by_the_folder_it_goes_to() -> None:
    folder = {
        "behavior.on.null.values": "write",
        "store.kafka.keys": "true",
        "keys.format.class": "json",
        "key.converter": "StringConverter",
        "tombstone.encoded.partition": "gone",
    }
    by_key = {"partitioner.class": "field", "partition.field.name": "key:", **RAW}
    records = [record(n, key="x" * 970 if n in (1, 2) else "k") for n in range(4)]
    records[2] = records[2]._replace(value=None)
    written = Written(records, {**folder, **by_key})
    assert (written.bad, written.numbers) == ([1], [0, 3])
    assert [e.key for e in written.entries if e.view == "tombstones"] == [
        "topics/t/gone/t+0+0000000002.keys.json"
    ]


def test_an_accepted_name_fits_with_the_longest_offset_and_a_numbered_suffix() -> None:
    """At the very edge: the last path that passes has an object with the longest name there is."""
    at = 2**63 - 2
    options = {**fields(1), **RAW, "store.kafka.headers": "true", "headers.format.class": "json"}
    source = PartitionId("t", 12, 7)
    edge = next(n for n in range(1024, 0, -1) if not Written([record(0, "x" * n)], options).bad)
    edge -= len("~12")
    assert Written([record(at, "x" * (edge + 1))], options, source=source).bad == [at]
    store = MemoryStore()
    for number in range(MAX_NAMES - 1):
        zeros = "0" * number
        for extension in (".json", ".headers.json"):
            key = f"topics/t~12/f0={'x' * edge}/t+7+{zeros}{at}{extension}"
            store.put_new(key, b"foreign")
    written = Written([record(at, "x" * edge)], options, store, source)
    assert written.bad == []
    assert max(len(entry.key) for entry in written.entries) == 1024


def test_the_prefix_of_a_bucket_takes_its_room() -> None:
    assert S3Store("b", "", StorageOptions()).key_limits == KeyLimits(1024)
    assert S3Store("b", "as/ü", StorageOptions()).key_limits == KeyLimits(1018)


def test_a_folder_on_disk_has_a_shorter_name(tmp_path: Path) -> None:
    records = [record(n, "x" * (252 if n == 1 else 253)) for n in range(3)]
    written = Written(records, {**fields(1), **RAW}, LocalStore(tmp_path))
    assert (written.bad, written.numbers) == ([0, 2], [1])
    assert "takes 1024, and 255 for each folder" in written.dead_letters.first[0].error.message


def test_a_template_that_names_a_part_the_directory_lacks_finds_no_name() -> None:
    template = "{{topic}}/{{path:1}}/{{partition}}-{{start_offset}}"
    written = Written(
        [record(0, "a/b"), record(1, "a")], {**fields(1), **RAW, "object.name.template": template}
    )
    assert (written.bad, written.numbers) == ([1], [0])


OFFSETS = st.integers(0, 2**63 - 1)
TIMES = st.integers(-(2**63), 2**63 - 1)
FACTS = st.builds(
    NameFacts,
    topic=st.sampled_from(["t", "t" * 249, "_kafkeep"]),
    incarnation=st.integers(1, 2000),
    partition=st.integers(0, 2**31 - 1),
    start_offset=OFFSETS,
    last_offset=OFFSETS,
    first_timestamp=TIMES,
    last_timestamp=TIMES,
    path=st.text(st.sampled_from("ab/.=ü\\\n\u3000"), max_size=20)
    | st.integers(300, 1000).map(lambda n: "p" * n),
    extension=st.sampled_from([".json", ".keys.avro", ""]),
)


@settings(max_examples=300)
@given(st.sampled_from(LAYOUTS), FACTS, st.integers(0, MAX_NAMES - 1))
def test_whatever_an_object_is_called_in_the_end_its_name_is_one(
    naming: NamingOptions, facts: NameFacts, extra: int
) -> None:
    check = NameCheck(naming, KeyLimits(), ".keys.avro")
    source = PartitionId("source", facts.incarnation, facts.partition)
    if check.refusals(source, facts.topic, [facts.path]) == [None]:
        check_key(object_key(naming, facts, extra=extra))
