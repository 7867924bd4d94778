"""Options that select a part of an archive."""

from __future__ import annotations

import pytest

from kafkeep.errors import UsageError
from kafkeep.options.maintenance import CompareOptions, DrillOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.selection import parse_renames


def test_topics_keep_their_names_or_get_new_ones() -> None:
    assert parse_renames("a, b:new-b") == (("a", "a"), ("b", "new-b"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,,b", "is not a topic"),
        ("a:", "is not a topic"),
        ("a:x,b:x", "two topics would be restored into one"),
        ("a,b:a", "two topics would be restored into one"),
        ("a:x,a:y", "a topic would be restored into two"),
    ],
)
def test_what_cannot_be_done_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_renames(text)


@pytest.mark.parametrize("group", [RestoreOptions, CompareOptions, DrillOptions])
def test_a_command_declares_no_option_that_a_shared_group_declares(group: type) -> None:
    shared = {
        field
        for base in group.__mro__[1:]
        for field in getattr(base, "__annotations__", {})
        if base.__module__.startswith("kafkeep.options.")
    }
    assert {"commit", "at_ms"} <= shared
    assert not shared & set(group.__annotations__)


@pytest.mark.parametrize("group", [RestoreOptions, CompareOptions, DrillOptions])
def test_a_commit_and_a_time_cannot_both_select_the_state(group: type) -> None:
    with pytest.raises(UsageError, match="commit and at"):
        group(commit=1, at_ms=5)
