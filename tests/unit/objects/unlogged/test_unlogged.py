"""Objects without a log: their names, what belongs together, what is known of them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping

import pytest
from tests.support.unlogged_offline import read_back, store_of

from kafkeep.connect.connectors.source_config import SourceConfig
from kafkeep.errors import NoSuchArchiveError, PreflightError, UsageError
from kafkeep.objects.unlogged.listing import NameParser, UnloggedName, list_unlogged
from kafkeep.objects.unlogged.scan import (
    ScanIndex,
    find_objects,
    load_index,
    next_number,
    save_index,
    scan,
)
from kafkeep.objects.unlogged.view import what_objects_lack
from kafkeep.options.option import ConfigErrors
from kafkeep.options.sink.formats import Compression, FormatKind
from kafkeep.options.unlogged import UnloggedOptions, layout_of_sink
from kafkeep.restore.follow.listing import LISTING_STATES, ListingFollowState, is_new, last_objects
from kafkeep.store.memory import MemoryStore

SMT = "org.apache.kafka.connect.transforms."


def names(**texts: str) -> NameParser:
    return NameParser(
        UnloggedOptions.parse({key.replace("_", "."): text for key, text in texts.items()})
    )


def lines(*numbers: int) -> bytes:
    return b"".join(b'{"n":%d}\n' % n for n in numbers)


def values(texts: Mapping[str, str], objects: Mapping[str, bytes]) -> list[int]:
    rows = read_back(objects, texts).rows["t", 0]
    return [json.loads(row["value"])["n"] for row in rows]


class TestNames:
    def test_reports_topic_partition_offset_and_what_it_holds(self) -> None:
        name = names().parse("topics/or.ders/a=1/b=2/or.ders+12+0000000345.keys.json.gz")
        assert isinstance(name, UnloggedName)
        assert (name.topic, name.partition, name.start) == ("or.ders", 12, 345)
        assert (name.view, name.format, name.compression) == (
            "keys", FormatKind.JSON, Compression.GZIP,
        )  # fmt: skip
        assert name.folder == "topics/or.ders/a=1/b=2/"

    @pytest.mark.parametrize(
        ("end", "kind"),
        [
            (".avro", FormatKind.AVRO),
            (".snappy.parquet", FormatKind.PARQUET),
            (".parquet", FormatKind.PARQUET),
            (".bin.gz", FormatKind.BYTES),
            (".json", FormatKind.JSON),
        ],
    )
    def test_the_extension_determines_the_format(self, end: str, kind: FormatKind) -> None:
        name = names().parse(f"topics/t/partition=0/t+0+0000000000{end}")
        assert isinstance(name, UnloggedName) and name.format is kind

    def test_delimiters_may_be_part_of_the_topic(self) -> None:
        told = names(topics_dir="", directory_delim="_", file_delim="-")
        name = told.parse("my_topic-x_partition=3_my_topic-x-3-77.json")
        assert isinstance(name, UnloggedName)
        assert (name.topic, name.partition, name.start) == ("my_topic-x", 3, 77)

    def test_an_extension_of_bytes_objects_may_begin_without_a_dot(self) -> None:
        told = names(format_bytearray_extension="-timestamp.txt")
        name = told.parse("topics/t/2024/t+0+0000000007-timestamp.txt")
        assert isinstance(name, UnloggedName) and name.format is FormatKind.BYTES

    @pytest.mark.parametrize(
        ("key", "why"),
        [
            ("other/t/partition=0/t+0+0000000000.json", "not under topics/"),
            ("topics/t/partition=0/u+0+0000000000.json", "not named"),
            ("topics/t/partition=0/t+0.json", "not named"),
            ("topics/t/partition=0/t+0+0000000000.csv", "none of the formats"),
        ],
    )
    def test_says_why_a_name_does_not_fit(self, key: str, why: str) -> None:
        said = names().parse(key)
        assert isinstance(said, str) and why in said

    def test_what_is_kafkeeps_own_is_passed_over(self) -> None:
        assert names(topics_dir="").parse("_kafkeep/restores/x/000000.json") is None

    def test_tombstones_are_recognised_by_their_folder(self) -> None:
        name = names(tombstone_encoded_partition="gone").parse(
            "topics/t/gone/t+0+0000000004.keys.json"
        )
        assert isinstance(name, UnloggedName) and name.tombstones and name.view == "keys"


class TestOrder:
    def test_objects_go_by_the_number_not_by_the_text(self) -> None:
        key = "topics/t/partition=0/t+0+{}.json"
        objects = {
            key.format("10000000000"): lines(2, 3),
            key.format("9999999998"): lines(0, 1),
        }
        assert values({}, objects) == [0, 1, 2, 3]

    def test_directories_that_follow_each_other_are_in_order(self) -> None:
        objects = {
            "topics/t/hour=09/t+0+0000000002.json": lines(2, 3),
            "topics/t/hour=10/t+0+0000000000.json": lines(0, 1),
            "topics/t/hour=10/t+0+0000000004.json": lines(4),
        }
        back = read_back(objects, {})
        assert [row["offset"] for row in back.rows["t", 0]] == [0, 1, 2, 3, 4]
        assert values({}, objects) == [0, 1, 2, 3, 4]

    def test_directories_written_at_once_are_one_stretch_without_offsets(self) -> None:
        objects = {
            "topics/t/x=b/t+0+0000000000.json": lines(0, 2),
            "topics/t/x=a/t+0+0000000001.json": lines(1, 3),
            "topics/t/x=a/t+0+0000000004.json": lines(4),
        }
        back = read_back(objects, {})
        assert [row["offset"] for row in back.rows["t", 0]] == [-1, -1, -1, -1, 4]
        assert values({}, objects) == [0, 2, 1, 3, 4]
        said = " ".join(what_objects_lack(back.view.view.entries(), UnloggedOptions()))
        assert "order of 4 records" in said

    def test_a_hole_makes_offsets_unknown(self) -> None:
        objects = {
            "topics/t/partition=0/t+0+0000000000.json": lines(0, 2),
            "topics/t/partition=0/t+0+0000000003.json": lines(3),
        }
        back = read_back(objects, {})
        assert [row["offset"] for row in back.rows["t", 0]] == [-1, -1, 3]


class TestWhatBelongsTogether:
    def test_keys_that_others_have_must_be_there(self) -> None:
        objects = {
            "topics/t/partition=0/t+0+0000000000.json": lines(0),
            "topics/t/partition=0/t+0+0000000000.keys.json": b'"a"\n',
            "topics/t/partition=0/t+0+0000000001.json": lines(1),
        }
        (problem,) = read_back(objects, {}).view.grouped.problems
        assert problem[0].endswith("+0000000001.json") and "keys are not beside it" in problem[1]

    def test_keys_without_values_are_no_tombstones_elsewhere(self) -> None:
        objects = {"topics/t/partition=0/t+0+0000000000.keys.json": b'"a"\n'}
        assert "no values" in read_back(objects, {}).view.grouped.problems[0][1]

    def test_two_objects_of_one_offset_are_refused(self) -> None:
        objects = {
            "topics/t/a/t+0+0000000000.json": lines(0),
            "topics/t/b/t+0+0000000000.json": lines(0),
        }
        back = read_back(objects, {})
        assert len(back.view.grouped.problems) == 2 and not back.rows

    def test_one_format_can_be_chosen(self) -> None:
        objects = {
            "topics/t/a/t+0+0000000000.json": lines(0),
            "topics/t/a/t+0+0000000000.bin": b"x\n",
        }
        back = read_back(objects, {"format.class": "json"})
        assert [row["value"] for row in back.rows["t", 0]] == [b'{"n":0}']
        assert [why for _, why in back.view.index.odd] == ["is bytes, and format.class is json"]

    def test_an_object_that_is_no_such_thing_is_named(self) -> None:
        objects = {"topics/t/a/t+0+0000000000.json.gz": b"not gzip"}
        (problem,) = read_back(objects, {}).view.grouped.problems
        assert problem[0] == "topics/t/a/t+0+0000000000.json.gz"


class TestWhatRecordsBecome:
    OBJECTS: Mapping[str, bytes] = {
        "topics/t/partition=0/t+0+0000000000.json": b'{"id":"a","ts":5,"n":1}\n{"id":"b","n":2}\n'
    }

    def test_texts_come_back_unchanged_unless_configured(self) -> None:
        rows = read_back(self.OBJECTS, {}).rows["t", 0]
        assert [row["value"] for row in rows] == [b'{"id":"a","ts":5,"n":1}', b'{"id":"b","n":2}']
        assert [(row["key"], row["timestamp"]) for row in rows] == [(None, -1), (None, -1)]

    def test_a_field_gives_times_where_it_is(self) -> None:
        told = {"timestamp.extractor": "RecordField", "timestamp.field": "ts"}
        rows = read_back(self.OBJECTS, told).rows["t", 0]
        assert [row["timestamp"] for row in rows] == [5, -1]

    def test_a_filter_leaves_records_out(self) -> None:
        told = {
            "transforms": "f",
            "transforms.f.type": f"{SMT}Filter",
            "transforms.f.predicate": "p",
            "transforms.f.negate": "true",
            "predicates": "p",
            "predicates.p.type": f"{SMT}predicates.TopicNameMatches",
            "predicates.p.pattern": "t",
        }
        assert UnloggedOptions.parse(told).drops_records
        assert len(read_back(self.OBJECTS, told).rows["t", 0]) == 2
        without = {**told, "transforms.f.negate": "false"}
        assert read_back(self.OBJECTS, without).rows["t", 0] == []

    def test_what_a_transform_cannot_do_names_the_object(self) -> None:
        told = {"transforms": "x", "transforms.x.type": f"{SMT}ValueToKey"}
        told |= {"transforms.x.fields": "n"}
        objects = {"topics/t/partition=0/t+0+0000000000.json": b"[1]\n"}
        with pytest.raises(
            PreflightError, match=r"t\+0\+0000000000.json: row 1, offset 0: only Map"
        ):
            read_back(objects, told)


class TestOptions:
    def test_a_key_that_says_nothing_is_refused_by_name(self) -> None:
        with pytest.raises(ConfigErrors, match=r"topic\.dir"):
            UnloggedOptions.parse({"topic.dir": "x"})

    def test_routers_are_refused(self) -> None:
        told = {"transforms": "r", "transforms.r.type": f"{SMT}RegexRouter"}
        told |= {"transforms.r.regex": "a", "transforms.r.replacement": "b"}
        with pytest.raises(ConfigErrors, match="renamed"):
            UnloggedOptions.parse(told)

    def test_a_sinks_own_transforms_are_not_done_again(self) -> None:
        told = {"transforms": "i", "transforms.i.type": "x", "topics.dir": "d", "s3.region": "r"}
        assert layout_of_sink(told) == {"topics.dir": "d"}

    def test_travels_to_tasks(self) -> None:
        told = UnloggedOptions.parse({"topics.dir": "d"})
        assert told.naming.topics_dir == "d"
        assert pickle.loads(pickle.dumps(told)).naming.topics_dir == "d"

    def test_a_source_takes_transforms_with_and_without_a_log(self) -> None:
        config = SourceConfig.from_map(
            {
                "connector.class": "io.confluent.connect.s3.source.S3SourceConnector",
                "s3.bucket.name": "bucket",
                "topics.dir": "d",
                "transforms": "k",
                "transforms.k.type": f"{SMT}ValueToKey",
                "transforms.k.fields": "id",
            },
            name="n",
        )
        assert config.unlogged is not None and config.unlogged.naming.topics_dir == "d"
        worker = {"value.converter": "StringConverter", "consumer.override.x": "y"}
        of_segments = config.changes_of({}, worker)
        assert of_segments is not None and set(of_segments.converters) == {"value"}
        of_sink = config.changes_of({"format.class": "json"}, worker)
        assert of_sink is not None and not of_sink.converters

    def test_a_source_refuses_transforms_that_its_restore_cannot_have(self) -> None:
        told = {
            "connector.class": "kafkeep.Restore",
            "archive": "s3://bucket",
            "restore.exact.offsets": "true",
            "transforms": "f",
            "transforms.f.type": f"{SMT}Filter",
        }
        with pytest.raises(ConfigErrors, match="transforms: a Filter leaves a hole"):
            SourceConfig.from_map(told, name="n")


class TestWhatIsThere:
    def test_a_topic_that_is_mistyped_is_distinguished_from_a_bucket_that_is_empty(self) -> None:
        store = store_of({"topics/t/partition=0/t+0+0000000000.json": lines(1)})
        with pytest.raises(UsageError, match="belongs to a requested topic") as mistyped:
            find_objects(store, UnloggedOptions(), {"tt"}.__contains__)
        assert mistyped.value.hint == "There are of: t."
        with pytest.raises(NoSuchArchiveError, match="no object of Confluent's sink under topics"):
            find_objects(store_of({}), UnloggedOptions(), {"t"}.__contains__)


class TestDocuments:
    def test_an_index_is_read_as_it_was_written(self) -> None:
        store = store_of({"topics/t/a b/t+0+0000000000.json": lines(1, 2), "topics/t/x": b"odd"})
        options = UnloggedOptions()
        listing = list_unlogged(store, options)
        index = ScanIndex(
            0, tuple(scan(store, listing.objects, options)), tuple(listing.odd), 1, {"t": 3}
        )
        save_index(store, "id", index)
        save_index(store, "id", index)
        assert load_index(store, "id", 0) == index and next_number(store, "id") == 1
        assert index.objects[0].records == 2

    def test_a_follower_knows_what_is_new_by_folder_and_offset(self) -> None:
        store = store_of(
            {
                "topics/t/a/t+0+0000000000.json": lines(0),
                "topics/t/a/t+0+0000000009.json": lines(9),
                "topics/t/b/t+0+0000000004.json": lines(4),
            }
        )
        options = UnloggedOptions()
        objects = list_unlogged(store, options).objects
        first, *others = scan(store, objects, options)
        state = ListingFollowState().begin(0, {"t": "t"}).finish(last_objects([first], {}))
        assert [is_new(one.name, state.positions) for one in others] == [True, True]
        assert not is_new(first.name, state.positions)
        store = MemoryStore()
        LISTING_STATES.save(store, state)
        assert LISTING_STATES.load(store) == state
        assert is_new(first.name, state.forget({"t"}).positions)
