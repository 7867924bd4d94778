from __future__ import annotations

import dataclasses

import orjson
import pytest

from kafkeep.archive.entry_tables import TableRows, cut_entries, dump_rows
from kafkeep.archive.offset_runs import OffsetRuns

TOPICS = ("a", "a-b", "a.b", "aa", "b", "topic")
TRICKY = '{"topic":"a"},{"codec":"],"first":'
"""As a text in an entry, this must not be taken for the beginning or the end of one."""


@pytest.fixture
def plain(make_entry) -> bytes:
    entries = [
        dataclasses.replace(
            make_entry(start, start + 10, topic=topic),
            closed_by=TRICKY,
            runs=OffsetRuns.of([(start, start + 1)]),
        )
        for start in (0, 10, 20)
        for topic in TOPICS
    ]
    return dump_rows("backup", TableRows([entry.to_json() for entry in entries]), 3, 9)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_cut_text_of_a_table_has_all_entries_of_the_topic_and_no_others(
    plain: bytes, topic: str
) -> None:
    whole, cut = orjson.loads(plain), orjson.loads(cut_entries(plain, topic))
    assert cut.pop("entries") == [row for row in whole["entries"] if row["topic"] == topic]
    del whole["entries"]
    assert cut == whole


@pytest.mark.parametrize("topic", ["", "0", "a-", "ab", "z"])
def test_the_cut_text_for_a_topic_without_entries_has_none(plain: bytes, topic: str) -> None:
    assert orjson.loads(cut_entries(plain, topic))["entries"] == []


def test_a_text_in_another_form_than_a_table_stays_whole() -> None:
    spaced = orjson.dumps({"entries": [{"topic": "a"}]}, option=orjson.OPT_INDENT_2)
    empty = dump_rows("backup", TableRows(), 0, 0)
    assert cut_entries(spaced, "a") == spaced
    assert cut_entries(empty, "a") == empty
