"""Numbers of as many bytes as they need, as Kafka, Avro and Thrift write them. For few of them."""

from __future__ import annotations


def varint(number: int) -> bytes:
    """Return a number that is not negative, seven bits to the byte, the lowest first."""
    made = bytearray()
    while number > 0x7F:
        made.append((number & 0x7F) | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def zigzag_varint(number: int) -> bytes:
    """Return any number, small ones of either sign in few bytes."""
    return varint(2 * number if number >= 0 else -2 * number - 1)
