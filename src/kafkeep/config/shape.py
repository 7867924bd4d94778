"""Texts that say into what an archive is restored: a map, a shift of times, a filter."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkeep.config.units import parse_duration
from kafkeep.errors import UsageError

MOST_PARTITIONS = 100_000
_PAIR = re.compile(r"(\d{1,6}):(\d{1,6})")
_CONDITION = re.compile(r"(!?)(key|header:([^=!^]+?))(?:(!=|\^=|=)(.*))?", re.DOTALL)
_COMMA = re.compile(r"(?<!\\),")
_HINT = (
    "Write key=a, key!=a, key^=a (begins with a), header:NAME=a, or key, !key, header:NAME and "
    "!header:NAME for there is one or none; commas between them; bytes as hex:00ff."
)


@dataclass(frozen=True, slots=True)
class Condition:
    """What one record must have: a key, or a header of that name, that is or begins with bytes.

    ``value`` None asks only whether there is one. Of headers that repeat, one is enough.
    """

    header: str | None
    """The header's name; None is the key."""
    value: bytes | None
    begins: bool = False
    negated: bool = False

    def to_json(self) -> list[object]:
        """Return it as a plain value, for the name of a restore."""
        value = None if self.value is None else self.value.hex()
        return [self.header, value, self.begins, self.negated]


def parse_partition_map(text: str) -> tuple[tuple[int, int], ...]:
    """Turn ``0:3,1:4`` into pairs of archived and target partition, each archived one once."""
    found: dict[int, int] = {}
    for part in text.split(","):
        match = _PAIR.fullmatch(part.strip())
        if match is None or int(match[2]) >= MOST_PARTITIONS:
            raise UsageError(
                f"{part!r} does not map a partition", hint="Write ARCHIVED:TARGET pairs: 0:3,1:4."
            )
        if int(match[1]) in found:
            raise UsageError(f"partition {match[1]} is mapped twice in {text!r}")
        found[int(match[1])] = int(match[2])
    return tuple(sorted(found.items()))


def parse_partition_count(text: str) -> int:
    """Return a number of partitions."""
    bare = text.strip()
    if not bare.isdecimal() or not 0 < int(bare) <= MOST_PARTITIONS:
        raise UsageError(f"partition-count is {text!r}, but must be a whole number above zero")
    return int(bare)


def parse_shift(text: str) -> int:
    """Turn ``+1h`` or ``-30d`` into milliseconds; the sign must be there, but for 0."""
    bare = text.strip()
    if bare in ("0", "0ms"):
        return 0
    if bare[:1] not in ("+", "-"):
        raise UsageError(f"{text!r} has no sign", hint="Write +1h for later, -30d for earlier.")
    shift = parse_duration(bare[1:])
    return -shift if bare[0] == "-" else shift


def parse_filter(text: str) -> tuple[Condition, ...]:
    """Turn ``key^=user-,header:type=created`` into conditions, which all must hold.

    A comma inside of a value is written with a backslash before it.
    """
    return tuple(_condition(part.replace("\\,", ",")) for part in _COMMA.split(text))


def _condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text.strip(" "))
    if match is None and text.strip().startswith("time"):
        raise UsageError("times are not filtered by filter", hint="Use --from and --until.")
    if match is None or (match[1] and match[4]):
        raise UsageError(f"{text!r} is not a filter", hint=_HINT)
    value = None if match[4] is None else _bytes(match[5])
    negated = bool(match[1]) or match[4] == "!="
    return Condition(match[3], value, begins=match[4] == "^=", negated=negated)


def _bytes(text: str) -> bytes:
    if not text.startswith("hex:"):
        return text.encode()
    try:
        return bytes.fromhex(text[4:])
    except ValueError as error:
        raise UsageError(f"{text!r} is not in hexadecimal digits", hint=_HINT) from error
