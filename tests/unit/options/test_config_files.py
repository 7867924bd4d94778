from __future__ import annotations

import pytest

from kafkeep.errors import UsageError
from kafkeep.options.config_files import parse_properties


@pytest.mark.parametrize("line", ["a=b", "a = b", "a:b", "a b", "  a\t=  b", "a   :b"])
def test_key_ends_at_the_first_separator(line: str) -> None:
    assert parse_properties(line) == {"a": "b"}


def test_comments_and_blank_lines_are_passed_over() -> None:
    assert parse_properties("# one\n\n  ! two\r\na=1\r  \nb=2") == {"a": "1", "b": "2"}


def test_backslash_joins_lines_and_drops_the_next_indent() -> None:
    assert parse_properties("fruits = apple, \\\n    banana, \\\r\n\tpear") == {
        "fruits": "apple, banana, pear"
    }


def test_two_backslashes_at_the_end_join_nothing() -> None:
    assert parse_properties("path=c:\\\\temp\\\\\nb=1") == {"path": "c:\\temp\\", "b": "1"}


def test_a_comment_line_does_not_end_a_joined_line() -> None:
    assert parse_properties("a=1\\\n#2") == {"a": "1#2"}


def test_escapes_are_read_in_keys_and_values() -> None:
    assert parse_properties(r"a\ b\=c = \t\u00e9\q\ud83d\ude00") == {"a b=c": "\té" + "q😀"}


def test_the_last_of_two_equal_keys_holds() -> None:
    assert parse_properties("a=1\na=2") == {"a": "2"}


def test_a_key_alone_has_an_empty_value() -> None:
    assert parse_properties("ssl.endpoint.identification.algorithm=\nb") == {
        "ssl.endpoint.identification.algorithm": "",
        "b": "",
    }


def test_trailing_blanks_belong_to_the_value() -> None:
    assert parse_properties("a=b  ") == {"a": "b  "}


def test_a_broken_unicode_escape_names_its_line() -> None:
    with pytest.raises(UsageError, match="line 2"):
        parse_properties("a=1\nb=\\u12")
