"""The assignment of a member, as consumers encode it."""

from __future__ import annotations

import struct

import pytest

from kafkeep.kafka.admin.describe_groups import parse_assignment


def encode(*topics: tuple[str, list[int]]) -> bytes:
    body = struct.pack(">hi", 3, len(topics))
    for name, numbers in topics:
        text = name.encode()
        body += struct.pack(">h", len(text)) + text + struct.pack(">i", len(numbers))
        body += struct.pack(f">{len(numbers)}i", *numbers)
    return body + struct.pack(">i", -1)


def test_an_assignment_names_its_partitions_in_order() -> None:
    body = encode(("users", [2, 0]), ("orders", [1]))
    assert parse_assignment(body) == (("orders", 1), ("users", 0), ("users", 2))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"not an assignment at all",
        struct.pack(">hi", 0, 2**31 - 1),
        struct.pack(">hi", 0, 1) + struct.pack(">h", -1),
        struct.pack(">hih1si", 0, 1, 1, b"t", 2**31 - 1),
        struct.pack(">hih1si", 0, 1, 1, b"t", -1),
        struct.pack(">hih1si", 0, 1, 1, b"\xff", 0),
        encode(("users", [0]))[:-6],
    ],
)
def test_bytes_that_are_no_assignment_name_nothing(body: bytes) -> None:
    assert parse_assignment(body) == ()
