"""Integers of variable length, as Kafka, Avro and Thrift write them, in plain Python.

For headers and footers. Loops over records use the compiled ones of ``numba_setup``.
"""

from __future__ import annotations


def varint(number: int) -> bytes:
    """Return a number that is not negative, seven bits to the byte, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag_varint(number: int) -> bytes:
    """Return any number; small ones of either sign take few bytes."""
    return varint(2 * number if number >= 0 else -2 * number - 1)
