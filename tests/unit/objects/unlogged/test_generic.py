"""Objects of any name: which topic each has, and where it stands there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkeep.objects.unlogged.entries import group
from kafkeep.objects.unlogged.listing import NameParser, UnloggedName
from kafkeep.objects.unlogged.scan import ScannedObject, numbered
from kafkeep.options.option import ConfigErrors
from kafkeep.options.sink.formats import Compression, FormatKind
from kafkeep.options.unlogged import UnloggedOptions
from kafkeep.restore.follow.listing import FolderPartition, LastObject, is_new, next_offsets


def options(regexes: str, **more: str) -> UnloggedOptions:
    texts = {key.replace("_", "."): text for key, text in more.items()}
    return UnloggedOptions.parse(
        {"mode": "generic", "topic.regex.list": regexes, **texts}, strict=False
    )


def name(key: str, told: UnloggedOptions) -> UnloggedName:
    found = NameParser(told).parse(key)
    assert isinstance(found, UnloggedName), found
    return found


def test_the_first_expression_that_fits_a_whole_key_gives_the_topic() -> None:
    told = options(r"orders:topics/o.*\\.json(\\.gz)?,rest:.*".replace("\\\\", "\\"))
    assert name("topics/o/1.json.gz", told).topic == "orders"
    assert name("topics/o/1.json.gz", told).compression is Compression.GZIP
    assert name("topics/a/o.json", told).topic == "rest"
    assert name("topics/o.avro", told).format is FormatKind.AVRO
    assert name("topics/a/b/o.json", told).folder == "topics/a/b/"


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("elsewhere/a.json", "is not under topics/"),
        ("topics/b.json", "fits no expression"),
        ("topics/a.txt", "does not end as"),
        ("topics/a.avro", "does not end as json"),
    ],
)
def test_what_is_left_out_is_reported(key: str, why: str) -> None:
    told = options("t:topics/a.*", format_class="io.confluent.connect.s3.format.json.JsonFormat")
    found = NameParser(told).parse(key)
    assert isinstance(found, str) and why in found


@pytest.mark.parametrize("regexes", ["", "a", "a:", "a/b:.*", "a:["])
def test_a_list_that_is_none_is_refused(regexes: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        options(regexes)
    assert list(caught.value.by_key) == ["topic.regex.list"]


def test_counted_objects_follow_one_another_and_those_before() -> None:
    told = options("t:.*")
    keys = {"topics/a/1.json": 3, "topics/a/2.json": 0, "topics/a/3.json": 2, "topics/b/1.json": 1}
    scanned = [ScannedObject(name(key, told), 10, rows, "x") for key, rows in keys.items()]
    found = list(numbered(scanned, {"t": 10}))
    assert [one.name.start for one in found] == [10, 13, 15, 17]
    grouped = group(found, told)
    assert grouped.problems == [] and grouped.repeats == []
    assert [(e.key, e.range.start, e.records) for e in grouped.entries] == [
        ("topics/a/1.json", 10, 3),
        ("topics/a/3.json", 15, 2),
        ("topics/b/1.json", 17, 1),
    ]
    assert [one.name.start for one in numbered(found, {})] == [10, 13, 15, 17]


def test_an_object_is_new_when_its_name_comes_after_the_last_one_of_its_folder() -> None:
    told = options("t:.*")
    positions = {
        FolderPartition("topics/a/", "t", 0): LastObject("topics/a/2.json", 7, 3),
        FolderPartition("topics/b/", "t", 0): LastObject("topics/b/1.json", 4, 3),
    }
    assert next_offsets(positions) == {"t": 10}
    new = ["topics/a/1.json", "topics/a/2.json", "topics/a/3.json", "topics/c/0.json"]
    assert [is_new(name(key, told), positions) for key in new] == [False, False, True, True]


def test_objects_without_an_offset_are_files_of_their_own() -> None:
    told = options("t:.*")
    one, two = name("topics/1.json", told), name("topics/2.json", told)
    assert one.stem != two.stem
    assert replace(one, start=0).stem == replace(one, start=0, key="topics/1.keys.json").stem
