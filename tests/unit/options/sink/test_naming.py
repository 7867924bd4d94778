"""What shapes the names of a sink's objects, and when they are closed, is checked as it is read."""

from __future__ import annotations

import pytest

from kafkeep.options.option import ConfigErrors, parse_group
from kafkeep.options.sink.naming import NamingOptions
from kafkeep.options.sink.rotation import RotateOptions
from kafkeep.options.sink.sink import SinkOptions


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("topics.dir", ".."),
        ("topics.dir", "a/../b"),
        ("topics.dir", "a//b"),
        ("topics.dir", "a\\b"),
        ("topics.dir", "a\nb"),
        ("topics.dir", "_kafkeep/backup"),
        ("directory.delim", "//"),
        ("directory.delim", "/./"),
        ("file.delim", "/../"),
        ("tombstone.encoded.partition", "a\\b"),
        ("tombstone.encoded.partition", "a\tb"),
        ("format.bytearray.extension", ".a\\b"),
        ("flush.size", "9223372036854775808"),
        ("rotate.interval.ms", "99999999999999999999"),
        ("rotate.schedule.interval.ms", "9223372036854775808"),
    ],
)
def test_what_no_name_and_no_number_can_hold_is_refused_by_key(key: str, text: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        SinkOptions.parse({"format.class": "bytes", key: text})
    assert list(caught.value.by_key) == [key]


@pytest.mark.parametrize(
    ("text", "folder"), [("", ""), (" ", ""), ("/", ""), ("/a/b/", "a/b"), ("a b", "a b")]
)
def test_the_folder_of_the_topics_has_no_slash_at_its_ends(text: str, folder: str) -> None:
    assert parse_group(NamingOptions, {"topics.dir": text}).topics_dir == folder


def test_blanks_around_a_number_go() -> None:
    assert parse_group(RotateOptions, {"flush.size": " 5 "}).flush_size == 5
