"""Reports, traces and samples, without services."""

from __future__ import annotations

import json
import random
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from kafkeep.errors import AccessDeniedError, DamagedError, UsageError
from kafkeep.maintenance.drill import PREFIX, cleaned_up, scratch_names
from kafkeep.maintenance.report import (
    Bars,
    ReportPage,
    Table,
    Timeline,
    check_report_path,
    write_report,
)
from kafkeep.maintenance.verify.last_verified import (
    last_verified_ms,
    save_verified,
    verified_prefix,
)
from kafkeep.options.maintenance import CompareOptions, Sample, parse_sample
from kafkeep.store.memory import MemoryStore

NASTY = "<script>alert('x')</script>&\"'"
VOID = {"meta", "rect", "line", "br"}


class Tags(HTMLParser):
    """Checks that tags are closed in order, and collects their names."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def page() -> ReportPage:
    return ReportPage(
        title=NASTY,
        verdict=NASTY,
        mood="bad",
        summary=NASTY,
        facts=[(NASTY, NASTY)],
        sections=[
            Table(NASTY, (NASTY,), [(NASTY,), (None,), (12345,)]),
            Bars(NASTY, [(NASTY * 3, 0), ("b", 7)], NASTY),
            Timeline(NASTY, [(NASTY, 0.0, 0.0, NASTY)]),
        ],
        document={"tool": NASTY, "version": 1},
    )


def test_a_page_is_well_formed_escaped_and_needs_nothing_else(tmp_path: Path) -> None:
    file = check_report_path(str(tmp_path / "a.html"))
    write_report(page(), file)
    text = file.read_text()
    tags = Tags()
    tags.feed(text)
    assert tags.open == [] and "script" not in tags.seen and {"svg", "table"} <= tags.seen
    assert "12,345" in text and "prefers-color-scheme" in text
    assert not {"link", "img", "iframe"} & tags.seen and "url(" not in text


def test_the_same_as_json(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_report(page(), file)
    assert json.loads(file.read_text()) == {"tool": NASTY, "version": 1}


@pytest.mark.parametrize("path", ["report.txt", "report", "no/such/folder/a.html"])
def test_a_report_that_cannot_be_written_is_refused_before_the_work(path: str) -> None:
    with pytest.raises(UsageError):
        check_report_path(path)


def test_the_newest_trace_counts() -> None:
    store = MemoryStore()
    assert last_verified_ms(store, "backup") is None
    times = random.Random(1).sample(range(10**12, 10**13), 30)
    for at_ms in times:
        assert save_verified(store, "backup", at_ms, {"kind": "archive"})
    assert save_verified(store, "backup", max(times), {"kind": "archive"})  # again: no error
    assert last_verified_ms(store, "backup") == max(times)
    assert last_verified_ms(store, "other") is None
    body = json.loads(store.get(next(iter(store.list(verified_prefix("backup")))).key))
    assert body["at_ms"] == max(times) and body["kind"] == "archive" and body["version"] == 1


@pytest.mark.parametrize(
    ("text", "archived", "expected"),
    [("1%", 1000, 10), ("1%", 3, 1), ("100%", 7, 7), ("0.5%", 1000, 5), ("5", 3, 3), ("5", 0, 0)],
)
def test_a_sample_is_a_share_or_a_number(text: str, archived: int, expected: int) -> None:
    assert parse_sample(text).offsets(archived) == expected


@pytest.mark.parametrize("text", ["", "0", "0%", "101%", "-1", "a", "1.5"])
def test_what_is_no_sample_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_sample(text)
    assert str(Sample(share=0.01)) == "1%"


def test_scratch_names_are_recognisable_valid_and_new() -> None:
    topics = ["a", "b" * 249, "b" * 248 + "c"]
    one, other = scratch_names(topics, 0), scratch_names(topics, 0)
    assert not set(one.values()) & set(other.values()) and len(set(one.values())) == 3
    assert all(name.startswith(PREFIX) and len(name) <= 249 for name in one.values())


class Keeping:
    """A cluster where nothing may be deleted."""

    def delete_topics(self, topics: tuple[str, ...]) -> None:
        raise AccessDeniedError(f"access denied: delete topic {topics[0]}")


def test_scratch_topics_that_cannot_be_deleted_hide_nothing_of_a_drill() -> None:
    admin: Any = Keeping()
    kept: list[str] = []
    with cleaned_up(admin, ("a",), kept):
        pass
    assert kept == ["scratch topics were not deleted: access denied: delete topic a"]
    with pytest.raises(DamagedError, match="cut short"), cleaned_up(admin, ("a",), kept):
        raise DamagedError("an object is cut short")


def test_a_selection_is_not_the_whole_archive() -> None:
    assert CompareOptions(exact_offsets=True).is_whole
    assert not CompareOptions(topics=(("a", "a"),)).is_whole
    with pytest.raises(UsageError):
        CompareOptions(exact_offsets=True, repartitioned=True)
