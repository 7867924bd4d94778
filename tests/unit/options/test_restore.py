"""Which topics come back, and under which names."""

from __future__ import annotations

import pytest

from kafkeep.errors import UsageError
from kafkeep.options.restore import parse_renames


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
