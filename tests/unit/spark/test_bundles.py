"""Work is distributed evenly, and in little time."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from kafkeep.spark.bundles import pack_evenly


@given(st.lists(st.integers(0, 1000)), st.integers(1, 20))
def test_each_item_is_in_one_bundle_and_no_bundle_is_much_heavier(
    sizes: list[int], bundles: int
) -> None:
    packed = pack_evenly(sorted(sizes, reverse=True), bundles, lambda size: size)
    assert sorted(size for members in packed for size in members) == sorted(sizes)
    assert len(packed) == min(bundles, len(sizes))
    weights = [sum(members) for members in packed]
    assert max(weights, default=0) - min(weights, default=0) <= max(sizes, default=0)


def test_items_without_weight_are_spread() -> None:
    assert pack_evenly("abcd", 2, lambda _: 0) == [("a", "c"), ("b", "d")]


def test_a_hundred_thousand_items_take_n_log_n_steps() -> None:
    began = time.process_time()
    packed = pack_evenly(range(100_000, 0, -1), 10_000, lambda size: size)
    assert time.process_time() - began < 5, "looking at every bundle for each item takes minutes"
    weights = [sum(members) for members in packed]
    assert len(weights) == 10_000 and max(weights) - min(weights) <= 100_000
