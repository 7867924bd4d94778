"""Long lists in pages. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_MAX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Paging:
    """One page of a list of ``count`` items; pages count from 1."""

    count: int
    wanted: int
    size: int

    @property
    def last(self) -> int:
        """The number of the last page."""
        return max(1, -(-self.count // self.size))

    @property
    def number(self) -> int:
        """The page that is shown: the last one if a later one was asked for."""
        return min(self.wanted, self.last)

    @property
    def start(self) -> int:
        return (self.number - 1) * self.size

    @property
    def end(self) -> int:
        return min(self.start + self.size, self.count)


def page_number(query: Mapping[str, str]) -> int:
    """Return the ``page`` of a query; 1 when it is no page number."""
    text = query.get("page", "")
    if not (text.isascii() and text.isdigit()) or len(text) > _MAX_DIGITS:
        return 1
    return max(1, int(text))
