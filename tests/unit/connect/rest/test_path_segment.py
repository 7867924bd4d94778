"""Any name fits into one segment of a path, and comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkeep.connect.model import RestError
from kafkeep.connect.rest.call import check_name, from_segment, to_segment


@given(st.text())
def test_a_name_comes_back_from_a_segment_that_any_path_can_hold(name: str) -> None:
    segment = to_segment(name)
    check_name(segment)
    assert segment
    assert from_segment(segment) == name


@pytest.mark.parametrize("name", ["orders", "two words", "über", "connect-a.b_c", "a~b"])
def test_a_plain_name_stays_as_it_is(name: str) -> None:
    assert to_segment(name) == name


@pytest.mark.parametrize("segment", ["~a", "~!!!", "~_w", "~ü"])
def test_a_segment_that_no_name_has_is_not_found(segment: str) -> None:
    with pytest.raises(RestError, match="is not a name in a path"):
        from_segment(segment)
