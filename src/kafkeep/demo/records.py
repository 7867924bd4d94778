"""The records of the demo: a handful that people know by name, and a stream without end."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

ORDERS, EVENTS = "orders", "events"
PARTITIONS: Mapping[str, int] = {ORDERS: 3, EVENTS: 2}

_ORDERS = (
    ("cust-100", "99.99", "Laptop", "10:00"),
    ("cust-101", "149.50", "Mouse", "10:05"),
    ("cust-102", "299.99", "Keyboard", "10:10"),
    ("cust-100", "49.99", "USB Cable", "10:15"),
    ("cust-103", "199.00", "Monitor", "10:20"),
)
_MORE_ORDERS = (
    ("cust-104", "89.99", "Headphones", "10:25"),
    ("cust-105", "129.99", "Webcam", "10:30"),
    ("cust-106", "79.99", "Mousepad", "10:35"),
    ("cust-107", "249.99", "SSD", "10:40"),
    ("cust-108", "349.99", "GPU", "10:45"),
)
_EVENTS: tuple[dict[str, str], ...] = (
    {"type": "user_login", "userId": "user-100"},
    {"type": "page_view", "userId": "user-101", "page": "/home"},
    {"type": "button_click", "userId": "user-100", "button": "checkout"},
    {"type": "user_logout", "userId": "user-100"},
    {"type": "error", "userId": "user-102", "error": "timeout"},
)
_PRODUCTS = ("Laptop", "Mouse", "Keyboard", "USB Cable", "Monitor", "Headphones", "SSD", "GPU")
_TOMBSTONE_EVERY = 97


@dataclass(frozen=True, slots=True)
class DemoRecord:
    """One record to produce; ``amount`` is what it adds to the sum of all orders."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    amount: Decimal = Decimal(0)

    def partition(self, number: int) -> int:
        """Return where it goes: by its key, else by its place ``number`` in the stream."""
        place = number if self.key is None else zlib.crc32(self.key)
        return place % PARTITIONS[self.topic]


def sample_records() -> list[DemoRecord]:
    """Return orders 1 to 5 and events 1 to 5."""
    orders = [_sample_order(i, *row) for i, row in enumerate(_ORDERS, 1)]
    return orders + [_sample_event(i, row) for i, row in enumerate(_EVENTS, 1)]


def more_records() -> list[DemoRecord]:
    """Return orders 6 to 10, which come while the backup runs."""
    return [_sample_order(i, *row) for i, row in enumerate(_MORE_ORDERS, 6)]


def iter_stream() -> Iterator[DemoRecord]:
    """Yield orders and events for ever; some orders are deleted by a tombstone.

    Among them is what a careless copy loses: null keys and values, headers that repeat, are null
    or empty.
    """
    number = 11
    while True:
        amount = Decimal(number * 37 % 50_000) / 100
        order = _sample_order(
            number,
            f"cust-{100 + number % 900}",
            f"{amount:.2f}",
            _PRODUCTS[number % len(_PRODUCTS)],
            f"{10 + number // 3600 % 10:02d}:{number // 60 % 60:02d}",
        )
        headers = ((b"source", b"demo"), (b"trace", None), (b"trace", b""))
        yield DemoRecord(ORDERS, order.key, order.value, headers, order.amount)
        yield _sample_event(number, _EVENTS[number % len(_EVENTS)])
        if number % _TOMBSTONE_EVERY == 0:
            yield DemoRecord(ORDERS, order.key, None)
        number += 1


def _sample_order(number: int, customer: str, amount: str, product: str, at: str) -> DemoRecord:
    name = f"order-{number}"
    # Written by hand: a float would turn 149.50 into 149.5.
    value = (
        f'{{"orderId": "{name}", "customerId": "{customer}", "amount": {amount}, '
        f'"product": "{product}", "timestamp": "2024-12-03T{at}:00Z"}}'
    )
    return DemoRecord(ORDERS, name.encode(), value.encode(), amount=Decimal(amount))


def _sample_event(number: int, fields: Mapping[str, str]) -> DemoRecord:
    at = f"2024-12-03T10:{(number - 1) * 5 % 60:02d}:00Z"
    document = {"eventId": f"evt-{number:03d}", **fields, "timestamp": at}
    return DemoRecord(EVENTS, None, json.dumps(document).encode())
