"""The tags of data objects, as Connect's S3 sink sets them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkeep.config.option import option
from kafkeep.errors import UsageError

_PAIR = re.compile(r"[\w .:/=+@-]{1,128}:[\w ./=+@-]{0,256}")
_OFFSET_TAGS = ("startOffset", "endOffset", "recordCount")
_MAX_PAIRS = 10 - len(_OFFSET_TAGS)


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [part.strip() for part in text.split(",") if part.strip()]
    for pair in pairs:
        if not _PAIR.fullmatch(pair):
            raise UsageError(f"{pair!r} is not a tag; write name:value,name:value")
    found = dict(pair.rsplit(":", 1) for pair in pairs)
    if taken := [name for name in _OFFSET_TAGS if name in found]:
        raise UsageError(f"{taken[0]} is set by kafkeep itself")
    if len(found) > _MAX_PAIRS:
        raise UsageError(
            f"{len(found)} tags, but beside those of offsets there is room for {_MAX_PAIRS}"
        )
    return tuple(found.items())


@dataclass(frozen=True, kw_only=True)
class TagOptions:
    """The tags of data objects."""

    s3_object_tagging: bool = option(
        "s3.object.tagging",
        "Tag each data object with startOffset, endOffset (its last one) and recordCount.",
        default=False,
    )
    s3_object_tagging_key_value_pairs: tuple[tuple[str, str], ...] = option(
        "s3.object.tagging.key.value.pairs",
        "More tags for each data object: name:value,name:value.",
        default=(),
        parse=_pairs,
        metavar="NAME:VALUE,…",
    )

    def object_tags(self, *, start: int, end: int, records: int) -> dict[str, str] | None:
        """Return the tags of an object that holds ``[start, end)``; None where there are none."""
        if not self.s3_object_tagging:
            return None
        counted = (start, end - 1, records)
        own = dict(zip(_OFFSET_TAGS, map(str, counted), strict=True))
        return {**dict(self.s3_object_tagging_key_value_pairs), **own}
