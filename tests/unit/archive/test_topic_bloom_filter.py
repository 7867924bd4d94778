from __future__ import annotations

import pytest

from kafkeep.archive.topic_bloom_filter import MAX_BYTES, TopicBloomFilter


def test_a_filter_claims_each_of_its_topics_and_few_others() -> None:
    topics = {f"topic-{number}" for number in range(1000)}
    found = TopicBloomFilter.from_json(TopicBloomFilter.of(topics).to_json())
    assert all(map(found.may_hold, topics))
    assert sum(map(found.may_hold, (f"other-{n}" for n in range(10_000)))) < 300


def test_a_filter_of_many_topics_keeps_its_size_and_still_claims_all_of_them() -> None:
    topics = {f"topic-{number}" for number in range(20_000)}
    found = TopicBloomFilter.of(topics)
    assert len(found.bits) == MAX_BYTES
    assert all(map(found.may_hold, topics))


def test_the_bits_of_a_stored_filter_mean_the_same_for_ever() -> None:
    assert TopicBloomFilter.of({"orders"}) == TopicBloomFilter(bytes([0x30, 0x18]))
    assert TopicBloomFilter.of({"orders", "events", "größe"}).to_json() == "sCoAmg=="


@pytest.mark.parametrize("value", ["", "no base64!", "AAA"])
def test_a_damaged_filter_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        TopicBloomFilter.from_json(value)
