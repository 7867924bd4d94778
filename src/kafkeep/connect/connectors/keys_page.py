"""Write the page of Connect's keys from their declarations.

``python -m kafkeep.connect.connectors.keys_page`` prints ``docs/connect-keys.md``; a test compares
the two.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass

from kafkeep.connect.connectors.families import FAMILIES
from kafkeep.connect.connectors.family import Family
from kafkeep.connect.connectors.fixed_keys import FixedKey, KeySupport, iter_fixed_keys
from kafkeep.connect.connectors.s3_keys import S3Options
from kafkeep.connect.connectors.sink_keys import (
    OVERRIDE,
    ConnectorOptions,
    ConsumerReadOptions,
    iter_fixed_overrides,
)
from kafkeep.connect.connectors.source_keys import (
    PRODUCER,
    RESTORE,
    ROLES,
    SourceOptions,
    iter_source_fixed_keys,
    restore_options,
)
from kafkeep.options.backup import BackupOptions
from kafkeep.options.option import Option, iter_options
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.sink.converters import ConverterChoice, ConverterClass, settings_group
from kafkeep.options.sink.formats import FormatOptions
from kafkeep.options.sink.naming import NamingOptions, TagOptions
from kafkeep.options.sink.partitioners import PartitionOptions
from kafkeep.options.sink.rotation import RotateOptions
from kafkeep.options.sink.sink import ErrorOptions, NullOptions
from kafkeep.options.sink.transforms import PREDICATES, SIDED, WHOLE

_INTRO = """\
# Connect's keys

All keys of Kafka Connect's S3 sink, and how kafkeep treats each one:

- **honoured**: the key works as documented here;
- **always so**: kafkeep always behaves this way, and refuses a value that asks for something else;
- **refused**: not supported, for the reason given.

Keys that are not in these tables are unknown. `kafkeep backup` exits with 2 and suggests the
nearest name; the REST API logs them, as Connect does.

Connectors of other makers also take the keys of their own tables. kafkeep's keys work with their
classes too and take precedence. The names of their objects are those of their documentation.

A key without a default is not set. Values in JSON configurations may be strings, numbers or
booleans. A duration without a unit is in milliseconds, a size without a unit in bytes.
This page is generated from the declarations in the code.
"""
_TYPES = {"bool": "boolean", "int": "int", "float": "double", "tuple": "list"}
_METAVARS = {"DURATION": "string", "SIZE": "string", "TIME": "string", "MS": "long"}
"""Types of numbers that are written with a unit: clients must not treat them as numbers."""


@dataclass(frozen=True, slots=True)
class Row:
    """One key of the page."""

    key: str
    type: str
    default: str
    support: KeySupport
    sentence: str


def iter_sections() -> Iterator[tuple[str, list[Row]]]:
    """Yield the tables of the page with their headings."""
    for heading, groups in _GROUPS.items():
        rows = [row for group in groups for row in group_rows(group)]
        yield heading, rows + (_converter_rows() if heading == "Converters" else [])
    yield "Transforms and predicates", _transform_rows()
    client = "Kafka's address and the client's rights, over those of --command-config."
    yield (
        "The consumer",
        [
            *group_rows(ConsumerReadOptions),
            *(
                Row(OVERRIDE + name, "string", "", KeySupport.HONOURED, client)
                for name in (
                    "bootstrap.servers",
                    "client.id",
                    "security.protocol",
                    "sasl.…",
                    "ssl.…",
                )
            ),
            *map(_fixed_row, iter_fixed_overrides()),
        ],
    )
    yield "Others", [_fixed_row(key) for key in iter_fixed_keys()]


def iter_rows() -> Iterator[Row]:
    """Yield every key of the page."""
    for _heading, rows in iter_sections():
        yield from rows


def family_rows(family: Family) -> list[Row]:
    """Return the keys that only connectors of one family have."""
    rows = [row for group in family.groups for row in group_rows(group)]
    extra = {one.name for one in family.extra}
    rows += [row for row in group_rows(BackupOptions) if row.key in extra]
    rows += [_fixed_row(key) for key in family.fixed_keys]
    types = {row.key: row.type for row in (*rows, *iter_rows())}
    for key, other in family.renamed.items():
        own = other
        while own in family.renamed:
            own = family.renamed[own]
        rows.append(_plain(key, types[own], f"Same as {other}."))
    return rows


def iter_source_rows() -> Iterator[Row]:
    """Yield the keys of every source connector."""
    yield from group_rows(SourceOptions)
    restored = {one.name for one in restore_options()}
    for row in group_rows(RestoreOptions):
        if row.key in restored:
            yield dataclasses.replace(row, key=RESTORE + row.key)
    yield from group_rows(S3Options)
    converter = "The sink's class, or ByteArrayConverter: records keep their original bytes."
    for role in ROLES:
        yield _plain(f"{role}.converter", "string", converter)
    for name in ("bootstrap.servers", "client.id", "security.protocol", "sasl.…", "ssl.…"):
        yield _plain(PRODUCER + name, "string", "Address and security of the Kafka client.")
    yield from map(_fixed_row, iter_source_fixed_keys())


def _family_sections() -> Iterator[tuple[str, list[Row]]]:
    for family, heading in _FAMILIES.items():
        same = [one for one in FAMILIES if (one.name, one.kind) == family]
        rows = {row.key: row for one in same for row in family_rows(one)}
        if any("targetTopic." in one.below for one in same):
            sentence = "Spredfast's source: the name to restore a topic under."
            rows["targetTopic."] = _plain("targetTopic.<topic>", "string", sentence)
        yield heading, list(rows.values())
    shared = {row.key: row for row in iter_source_rows()}
    s3 = {one.name for one in iter_options(S3Options)}
    yield "Every source, beside S3's keys", [row for key, row in shared.items() if key not in s3]


def format_page() -> str:
    """Return the whole page."""
    parts = [_INTRO]
    for heading, rows in [*iter_sections(), *_family_sections()]:
        lines = ["| key | type | default | | |", "|---|---|---|---|---|", *map(_format_row, rows)]
        parts.append(f"## {heading}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def group_rows(group: type, rename: Callable[[str], str] = lambda name: name) -> list[Row]:
    """Return the rows of the options a group declares."""
    types = {field.name: str(field.type) for field in dataclasses.fields(group)}
    return [
        Row(
            rename(one.name),
            _type(one, types[one.field]),
            "required" if one.default is MISSING else one.default_text,
            KeySupport.HONOURED,
            one.help,
        )
        for one in iter_options(group)
    ]


def _fixed_row(key: FixedKey) -> Row:
    name = key.name + "…" if key.name.endswith(".") else key.name
    return Row(name, key.type, key.default, key.support, key.sentence)


def _converter_rows() -> list[Row]:
    users: dict[Row, list[str]] = {}
    for kind in ConverterClass:
        for row in group_rows(settings_group(kind), lambda name: f"….converter.{name}"):
            users.setdefault(row, []).append(kind.value.rpartition(".")[2])
    return [
        dataclasses.replace(row, sentence=f"{', '.join(kinds)}: {row.sentence}")
        for row, kinds in users.items()
    ]


def _transform_rows() -> list[Row]:
    step, predicate = "transforms.<name>.", "predicates.<name>."
    rows = [
        _plain("transforms", "list", "Names of the transforms, in order; each has its own keys."),
        _plain(step + "type", "string", f"{_sided(SIDED)}, {', '.join(WHOLE)}."),
        _plain(
            step + "predicate",
            "string",
            "The predicate that selects the records of this transform.",
        ),
        _plain(
            step + "negate", "boolean", "Select the records that do not match instead.", "false"
        ),
        _plain("predicates", "list", "Names of the predicates; each has its own keys."),
        _plain(predicate + "type", "string", f"{', '.join(PREDICATES)}."),
    ]
    for prefix, kinds in ((step, {**SIDED, **WHOLE}), (predicate, PREDICATES)):
        rows += list(_kind_rows(prefix, kinds))
    return rows


def _kind_rows(prefix: str, kinds: Mapping[str, type]) -> Iterator[Row]:
    for kind, group in kinds.items():
        for row in group_rows(group, lambda name: prefix + name):
            yield dataclasses.replace(row, sentence=f"{kind}: {row.sentence}")


def _sided(kinds: Iterable[str]) -> str:
    return ", ".join(f"{kind}$Key, {kind}$Value" for kind in kinds)


def _plain(key: str, kind: str, sentence: str, default: str = "") -> Row:
    return Row(key, kind, default, KeySupport.HONOURED, sentence)


def _type(one: Option, annotation: str) -> str:
    if one.metavar == "SECRET":
        return "password"
    if one.metavar in _METAVARS:
        return _METAVARS[one.metavar]
    return _TYPES.get(re.split(r"[\[|]", annotation, maxsplit=1)[0].strip(), "string")


def _format_row(row: Row) -> str:
    default = row.default.replace("\n", "\\n")
    shown = default if default in ("", "required") else f"`{default}`"
    sentence = row.sentence.replace("<", "\\<")
    cells = (f"`{row.key}`", row.type, shown, row.support.value, sentence)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


_GROUPS: Mapping[str, tuple[type, ...]] = {
    "The connector": (ConnectorOptions,),
    "S3": (S3Options, TagOptions),
    "Formats": (FormatOptions,),
    "Converters": (ConverterChoice,),
    "Partitioners": (PartitionOptions,),
    "When files are closed": (RotateOptions,),
    "Names": (NamingOptions,),
    "Records without a value": (NullOptions,),
    "Errors": (ErrorOptions,),
}

_FAMILIES: Mapping[tuple[str, str], str] = {
    ("kafkeep", "sink"): "kafkeep.Backup",
    ("spredfast", "sink"): "Spredfast's sink",
    ("ch.tbd", "sink"): "ch.tbd's pair for compacted topics",
    ("aiven", "sink"): "Aiven's sink",
    ("lenses", "sink"): "Lenses' sink",
    ("confluent", "source"): "Confluent's source",
    ("spredfast", "source"): "Spredfast's source",
    ("ch.tbd", "source"): "ch.tbd's source",
}
if __name__ == "__main__":
    sys.stdout.write(format_page())
