"""What no longer counts: a partition that was moved back is archived again from there on. Pure.

Each time, its topic gets the next *generation*, which entries and gaps bear from then on. So what
was committed before can be told from what came later, in any order they are read; and objects go
to a folder of that number, where no name is taken.
"""

from __future__ import annotations

from typing import NamedTuple


class Retirement(NamedTuple):
    """What was committed under an earlier generation counts up to ``offset`` alone."""

    generation: int
    offset: int


Retirements = tuple[Retirement, ...]
"""Of one partition: generations and offsets both ascend."""


def with_retirement(steps: Retirements, generation: int, offset: int) -> Retirements:
    """Return ``steps`` with one more; those that it covers are dropped, so they stay few."""
    return (*(s for s in steps if s.offset < offset), Retirement(generation, offset))


def is_retired(steps: Retirements, generation: int, end: int) -> bool:
    """Whether what was committed under ``generation``, up to offset ``end``, no longer counts.

    What reaches over the offset is dropped whole: the commit that retires it names again what of
    it still counts.
    """
    return any(step.generation > generation and end > step.offset for step in steps)
