from __future__ import annotations

import pytest

from kafkeep.archive.topic_filter import MAX_BYTES, TopicFilter


def test_a_filter_claims_each_of_its_topics_and_few_others() -> None:
    topics = {f"topic-{number}" for number in range(1000)}
    found = TopicFilter.from_json(TopicFilter.of(topics).to_json())
    assert all(map(found.may_hold, topics))
    assert sum(map(found.may_hold, (f"other-{n}" for n in range(10_000)))) < 300


def test_a_filter_of_many_topics_keeps_its_size_and_still_claims_all_of_them() -> None:
    topics = {f"topic-{number}" for number in range(20_000)}
    found = TopicFilter.of(topics)
    assert len(found.bits) == MAX_BYTES
    assert all(map(found.may_hold, topics))


def test_the_bits_of_a_stored_filter_mean_the_same_for_ever() -> None:
    assert TopicFilter.of({"orders"}) == TopicFilter(bytes([0x30, 0x18]))
    assert TopicFilter.of({"orders", "events", "größe"}).to_json() == "sCoAmg=="


@pytest.mark.parametrize("value", ["", "no base64!", "AAA"])
def test_a_damaged_filter_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        TopicFilter.from_json(value)
