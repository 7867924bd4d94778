"""The options of transforms that Apache Kafka does not have: SINETStream's, and our own."""

from __future__ import annotations

from dataclasses import dataclass

from kafkeep.config.choose import one_of
from kafkeep.config.option import option


def _csv_fields(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.lower().split(","))
    for name in found:
        one_of("field", "key", "value", "offset", "timestamp")(name)
    return found


@dataclass(frozen=True, kw_only=True)
class WholeOrFieldOptions:
    """What SINETStream's casts and its JSON reader are for."""

    field: str = option("field", "The field; empty for the whole value.", default="")


@dataclass(frozen=True, kw_only=True)
class CsvLineOptions:
    """What stands in a line of CSV, in this order."""

    fields: tuple[str, ...] = option(
        "fields",
        "key (in Base64), value, offset and timestamp (in ms).",
        default=("value",),
        parse=_csv_fields,
    )
    value_encoding: str = option(
        "value.encoding",
        "How values are written: base64, or none for as they are.",
        default="base64",
        parse=lambda text: one_of("value.encoding", "base64", "none")(text.strip().lower()),
    )
