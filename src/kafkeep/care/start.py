"""Where to begin in a partition, in kcat's words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kafkeep.errors import UsageError

_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Start:
    """An offset, or one counted back from the end of what is archived."""

    kind: Literal["offset", "from-end"]
    value: int

    def resolve(self, end: int) -> int:
        """Return the first offset wanted of a partition archived up to ``end``."""
        return self.value if self.kind == "offset" else max(0, end - self.value)


BEGINNING = Start("offset", 0)


def parse_start(text: str) -> Start:
    """Understand ``beginning``, ``end``, an offset, or ``-N`` for the last N offsets."""
    bare = text.strip()
    if bare == "beginning":
        return BEGINNING
    if bare == "end":
        return Start("from-end", 0)
    if not _NUMBER.fullmatch(bare):
        raise UsageError(
            f"{text!r} is not an offset",
            hint="Write a number, beginning, end, or -N for the last N.",
        )
    return Start("from-end", int(bare[1:])) if bare[0] == "-" else Start("offset", int(bare))
