"""Filters keep exactly what a plain reading keeps."""

from __future__ import annotations

import pytest

from kafkeep.kafka.batch.filter import matching
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.kafka.batch.unpack import iter_unpacked, walk_records
from kafkeep.options.restore import parse_filter

RECORDS = [
    Record(0, 0, b"user-1", b"v", [(b"type", b"created"), (b"trace", b"1")]),
    Record(1, 0, b"user-2", None, [(b"type", b"deleted"), (b"type", b"created")]),
    Record(2, 0, b"user", b"v" * 300, [(b"typed", b"created")]),
    Record(3, 0, None, b"v", [(b"type", None)]),
    Record(4, 0, b"", b"", [(b"type", b"")]),
    Record(5, 0, b"\x00\xff", b"v"),
    Record(6, 0, b"a,b", b"v", [(b"t,x", b"created and more")]),
    Record(7, 0, b"k" * 200, b"v", [(b"h", b"w" * 200), ("ключ".encode(), b"1")]),
]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("key=user", [2]),
        ("key!=user", [0, 1, 3, 4, 5, 6, 7]),
        ("key^=user-", [0, 1]),
        ("key^=", [0, 1, 2, 4, 5, 6, 7]),
        ("key=", [4]),
        ("key", [0, 1, 2, 4, 5, 6, 7]),
        ("!key", [3]),
        ("key=hex:00ff", [5]),
        ("key=a\\,b", [6]),
        ("key=" + "k" * 200, [7]),
        ("header:type=created", [0, 1]),
        ("header:type!=created", [2, 3, 4, 5, 6, 7]),
        ("header:type", [0, 1, 3, 4]),
        ("!header:type", [2, 5, 6, 7]),
        ("header:type=", [4]),
        ("header:type^=d", [1]),
        ("header:t\\,x^=created", [6]),
        ("header:ключ=1", [7]),
        ("header:type=created,header:trace", [0]),
        ("key^=user,header:type!=deleted", [0, 2]),
    ],
)
def test_what_is_kept(text: str, kept: list[int]) -> None:
    [part] = iter_unpacked(scan_batches(build_batch(RECORDS)))
    mask = matching(walk_records(part), parse_filter(text))
    assert [i for i, keeps in enumerate(mask.tolist()) if keeps] == kept
