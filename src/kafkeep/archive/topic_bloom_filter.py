"""Which topics an entry table may hold, in a few bytes: a Bloom filter of their names. Pure.

The table of a large cluster has more topics than the root of a checkpoint can list.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256
from struct import unpack_from

BITS_PER_TOPIC = 10
"""With these, one name in a hundred is taken for a topic of the table."""
MAX_BYTES = 4096
"""More than 3,276 topics have fewer bits each."""
_NUMBERS = ">4I"


@dataclass(frozen=True, slots=True)
class TopicBloomFilter:
    """A set of topics that may claim too many, and never too few."""

    bits: bytes

    @classmethod
    def of(cls, topics: Collection[str]) -> TopicBloomFilter:
        """Return the filter of these topics; equal sets have equal filters."""
        bits = bytearray(min(MAX_BYTES, -(-len(topics) * BITS_PER_TOPIC // 8)))
        for topic in topics:
            for place in _places(topic, len(bits)):
                bits[place // 8] |= 1 << place % 8
        return cls(bytes(bits))

    def may_hold(self, topic: str) -> bool:
        """Return False if ``topic`` is certainly not in the set."""
        return all(self.bits[p // 8] >> p % 8 & 1 for p in _places(topic, len(self.bits)))

    def to_json(self) -> str:
        return base64.b64encode(self.bits).decode()

    @classmethod
    def from_json(cls, value: str) -> TopicBloomFilter:
        """Parse the form in a document; ValueError when it is none."""
        bits = base64.b64decode(value, validate=True)
        if not bits:
            raise ValueError("a filter of topics is empty")
        return cls(bits)


def _places(topic: str, size_bytes: int) -> Iterator[int]:
    numbers = unpack_from(_NUMBERS, sha256(topic.encode()).digest())
    return (number % (8 * size_bytes) for number in numbers)
