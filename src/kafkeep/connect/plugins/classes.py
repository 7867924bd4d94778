"""The classes that a client can name, and the definitions of their keys. Pure.

The classes are connectors, transforms, predicates and converters. The definitions are Connect's
ConfigKeyInfo, with the values that forms recommend for a key and whether they show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version

from kafkeep.connect.connectors.confluent import CONFLUENT
from kafkeep.connect.connectors.families import CLASSES, matches
from kafkeep.connect.connectors.family import Family
from kafkeep.connect.connectors.fixed_keys import KeySupport
from kafkeep.connect.connectors.keys_page import (
    Row,
    family_rows,
    group_rows,
    iter_rows,
    iter_source_rows,
)
from kafkeep.connect.connectors.sink_keys import OWN_CODECS, is_secret, is_spec_key
from kafkeep.connect.model import Json
from kafkeep.connect.plugins.forms import COMMON, DEPENDENTS, NOT_IN_SOURCES, S3_SINK, FormField
from kafkeep.errors import UsageError
from kafkeep.options.sink.converters import (
    HEADER_CLASSES,
    ConverterClass,
    is_secret_key,
    settings_group,
)
from kafkeep.options.sink.formats import CLASS_NAMES, PARQUET_CODECS, FormatKind
from kafkeep.options.sink.transforms import (
    PREDICATE_PACKAGE,
    PREDICATES,
    SIDED,
    SIDES,
    WHOLE,
    transform_package,
)


@dataclass(frozen=True, slots=True)
class Plugin:
    """One class; ``type`` is sink, source, transformation, predicate, converter or so."""

    class_name: str
    type: str
    version: str

    def to_json(self) -> Json:
        """Return it as ``GET /connector-plugins`` does."""
        return {"class": self.class_name, "type": self.type, "version": self.version}

    def describe(self) -> str:
        """Return it as Connect's messages name a plugin."""
        return (
            f"PluginDesc{{klass=class {self.class_name}, name='{self.class_name}', "
            f"version='{self.version}', encodedVersion={self.version}, type={self.type}, "
            f"typeName='{self.type}', location='kafkeep'}}"
        )


@cache
def connectors() -> tuple[Plugin, ...]:
    """Return the connectors, sinks first."""
    found = [Plugin(name, family.kind, VERSION) for name, family in CLASSES.items()]
    return tuple(sorted(found, key=lambda one: (one.type, one.class_name)))


@cache
def others() -> tuple[Plugin, ...]:
    """Return the plugins that are not connectors."""
    return tuple(_iter_others())


def list_plugins(connectors_only: bool) -> list[Json]:
    """Return class, type and version of each."""
    found = connectors() if connectors_only else connectors() + others()
    return [plugin.to_json() for plugin in found]


def find_plugin(name: str) -> Plugin:
    """Return a connector by its class or a short name; UsageError in Connect's words.

    Where classes share a short name, Confluent's is meant.
    """
    found = matches(name)
    plugins = [plugin for plugin in connectors() if plugin.class_name in found]
    if plugins:
        return plugins[0]
    raise UsageError(
        "Failed to find any class that implements Connector and which name matches "
        f"{name}, available connectors are: {', '.join(one.describe() for one in connectors())}"
    )


def find_any_plugin(name: str) -> Plugin:
    """Return a connector, transform, predicate or converter; UsageError in Connect's words."""
    for plugin in others():
        if name in (plugin.class_name, plugin.class_name.rpartition(".")[2]):
            return plugin
    try:
        return find_plugin(name)
    except UsageError as error:
        raise UsageError(f"Unknown plugin {name}.") from error


def definitions(plugin: Plugin) -> list[Json]:
    """Return the definition of each of a plugin's keys, as Connect's ConfigKeyInfo."""
    return plugin_definitions(plugin.class_name, plugin.type)


def _iter_others() -> Iterator[Plugin]:
    steps = [(f"{kind}${side}", kind) for kind in SIDED for side in SIDES]
    steps += [(kind, kind) for kind in WHOLE]
    for name in sorted(transform_package(kind) + shown for shown, kind in steps):
        yield Plugin(name, "transformation", VERSION)
    for name in sorted(PREDICATES):
        yield Plugin(PREDICATE_PACKAGE + name, "predicate", VERSION)
    for kind in ConverterClass:
        if kind is not ConverterClass.SIMPLE_HEADER:
            yield Plugin(kind.value, "converter", VERSION)
    for kind in HEADER_CLASSES:
        yield Plugin(kind.value, "header_converter", VERSION)


VERSION = version("kafkeep")
PARTITIONERS = "io.confluent.connect.storage.partitioner."
FORMATS = {kind: name for name, kind in CLASS_NAMES.items()}
_REQUIRED = ("name", "connector.class")
_CONFLUENT = (*_REQUIRED, "format.class", "flush.size", "s3.bucket.name", "storage.class")
_BEGINNINGS = ("consumer.override.", "producer.override.", "transforms.", "predicates.", "….")
_DEFAULTS: Mapping[str, str | None] = {
    "keys.format.class": FORMATS[FormatKind.AVRO],
    "headers.format.class": FORMATS[FormatKind.AVRO],
    "partitioner.class": PARTITIONERS + "DefaultPartitioner",
    "partitioner.max.open.files": "-1",
    "rotate.interval.ms": "-1",
    "rotate.schedule.interval.ms": "-1",
    "timestamp.extractor": None,
    "tombstone.encoded.partition": None,
    "connector.plugin.version": VERSION,
    "key.converter.plugin.version": VERSION,
    "value.converter.plugin.version": VERSION,
    "header.converter.plugin.version": VERSION,
}
"""Defaults as Connect writes them; None for a key that is not set by default."""
OWN_GROUP = "kafkeep"
_TRANSLATED = ("aiven", "lenses", "spredfast")
"""Families whose own keys set the defaults of kafkeep's keys for formats and names."""


def plugin_definitions(class_name: str, kind: str) -> list[Json]:
    """Return the definitions of a plugin's keys; a connector's own first, then the common ones."""
    if kind in ("sink", "source"):
        return [dict(one) for one in _connector(class_name)]
    return [_plain(row, order) for order, row in enumerate(_parts_rows(class_name), 1)]


@cache
def _connector(class_name: str) -> tuple[Json, ...]:
    family = CLASSES[class_name]
    rows = {row.key: row for row in _rows(class_name) if _is_one_key(row)}
    fields: dict[str, FormField] = {}
    if family.kind == "sink":
        fields |= S3_SINK if family.name in ("confluent", "kafkeep", "ch.tbd") else {}
        fields |= COMMON
    else:
        fields |= {name: field for name, field in COMMON.items() if name not in NOT_IN_SOURCES}
    own = [row for key, row in rows.items() if key not in fields]
    own = [row if family.has_key(row.key) else _optional(row) for row in own]
    if family.name in _TRANSLATED:
        own = [row for row in own if family.has_key(row.key)] + [
            row for row in own if not family.has_key(row.key)
        ]
    required = _CONFLUENT if class_name == CONFLUENT else _REQUIRED
    first = [_defined(name, field, rows.get(name), required) for name, field in fields.items()]
    shown = (*first, *(_plain(row, order, required) for order, row in enumerate(own, 1)))
    defaults = _family_defaults(family, [one["name"] for one in shown])
    return tuple({**one, "default_value": _of_family(one, defaults)} for one in shown)


def _of_family(definition: Json, defaults: Mapping[str, str | None]) -> str | None:
    default: str | None = defaults.get(definition["name"], definition["default_value"])
    return None if definition["required"] else default


def _family_defaults(family: Family, names: Iterable[str]) -> dict[str, str | None]:
    """Return the defaults that differ from those of Confluent's sink; None: not set."""
    found: dict[str, str | None] = {"s3.region": family.region}
    if family.kind == "source":
        return {**found, **family.translate({}, "").texts}
    if family.name in _TRANSLATED:
        kept = (*COMMON, *family.keys)
        found |= {name: None for name in names if is_spec_key(name) and name not in kept}
    if family.name == "kafkeep":
        found |= {key: None for codecs in OWN_CODECS.values() for key in codecs}
    if family.name != "confluent":
        found |= {"s3.bucket.name": None, "format.class": None}
    if family.name == "ch.tbd":
        found |= family.translate({}, "").texts
        found["format.class"] = FORMATS[FormatKind(found["format.class"] or "")]
        found["object.name.template"] = None  # it may hold the connector's name
    return found


def _optional(row: Row) -> Row:
    """Return a key of kafkeep without a default: keys of the maker set it."""
    return replace(row, default="") if row.default == "required" else row


def _rows(class_name: str) -> list[Row]:
    family = CLASSES[class_name]
    if family.kind == "source":
        common = [
            row for row in iter_rows() if row.support is KeySupport.ALWAYS and row.key in COMMON
        ]
        return [*common, *family_rows(family), *iter_source_rows()]
    return [*family_rows(family), *iter_rows()]


def _is_one_key(row: Row) -> bool:
    has_name = not row.key.startswith(_BEGINNINGS) and "…" not in row.key and "<" not in row.key
    return has_name and row.support is not KeySupport.REFUSED


def _parts_rows(class_name: str) -> Iterable[Row]:
    last = class_name.rpartition(".")[2]
    kind = last.partition("$")[0]
    for groups in (SIDED, WHOLE, PREDICATES):
        if kind in groups:
            return group_rows(groups[kind])
    return group_rows(settings_group(ConverterClass(class_name)))


def _defined(name: str, field: FormField, row: Row | None, required: Iterable[str]) -> Json:
    needed = name in required
    return {
        "name": name,
        "type": field.type,
        "required": needed,
        "default_value": None if needed else _default(name, field.type, row),
        "importance": field.importance,
        "documentation": row.sentence if row else f"The version of the class; there is {VERSION}.",
        "group": field.group,
        "width": field.width,
        "display_name": display_name(name),
        "dependents": list(DEPENDENTS.get(name, ())),
        "order": field.order,
    }


def _plain(row: Row, order: int, required: Iterable[str] = ()) -> Json:
    secret = is_secret(row.key) or is_secret_key(f"value.converter.{row.key}")
    known = COMMON.get(row.key) or S3_SINK.get(row.key)
    kind = known.type if known is not None else row.type.upper()
    field = FormField("PASSWORD" if secret else kind, "MEDIUM", "MEDIUM", order, OWN_GROUP)
    needed = (*required, row.key) if row.default == "required" else required
    definition = _defined(row.key, field, row, needed)
    return {**definition, "default_value": definition["default_value"] or None}


def _default(name: str, kind: str, row: Row | None) -> str | None:
    if kind == "PASSWORD":
        return "[hidden]"
    if name in _DEFAULTS:
        return _DEFAULTS[name]
    found = row.default if row else ""
    return found or ("" if kind in ("LIST", "STRING") else None)


def display_name(name: str) -> str:
    """Return a key as a label: ``Flush Size``."""
    words = name.replace("_", ".").split(".")
    return " ".join(word.upper() if word in ("s3", "aws", "id") else word.title() for word in words)


Given = Mapping[str, str]
_TIMES = ("TimeBasedPartitioner", "time", "FieldAndTimeBasedPartitioner", "field-time")
_CLOCKS = (*_TIMES, "DailyPartitioner", "daily", "HourlyPartitioner", "hourly")
_FIELDS = ("FieldPartitioner", "field", "FieldAndTimeBasedPartitioner", "field-time")
_CONVERTERS = [one.value for one in ConverterClass if one is not ConverterClass.SIMPLE_HEADER]
_RECOMMENDED: Mapping[str, list[str]] = {
    "format.class": list(CLASS_NAMES),
    "keys.format.class": list(CLASS_NAMES),
    "headers.format.class": [n for n, kind in CLASS_NAMES.items() if kind is not FormatKind.BYTES],
    "key.converter": _CONVERTERS,
    "value.converter": _CONVERTERS,
    "header.converter": [one.value for one in HEADER_CLASSES],
    "avro.codec": ["null", "deflate", "snappy", "bzip2", "zstandard"],
    "parquet.codec": list(PARQUET_CODECS),
    "schema.compatibility": ["NONE", "BACKWARD", "FORWARD", "FULL"],
    "s3.ssea.name": ["AES256", "aws:kms", "aws:kms:dsse"],
    "s3.compression.level": [str(level) for level in range(-1, 10)],
    "s3.schema.partition.affix.type": ["SUFFIX", "PREFIX", "NONE"],
    "storage.class": ["io.confluent.connect.s3.storage.S3Storage"],
    "partitioner.class": [
        PARTITIONERS + name
        for name in (
            "DefaultPartitioner",
            "HourlyPartitioner",
            "DailyPartitioner",
            "TimeBasedPartitioner",
            "FieldPartitioner",
        )
    ],
}


def recommended(key: str) -> list[str]:
    """Return the values to offer; none where there are too many to list."""
    if key.endswith(".plugin.version"):
        return [VERSION]
    return list(_RECOMMENDED.get(key, ()))


def is_visible(key: str, given: Given) -> bool:
    """Return True if a key has an effect with the other given keys."""
    rule = _VISIBLE.get(key)
    return rule is None or rule(given)


def _last(given: Given, key: str) -> str:
    return given.get(key, "").strip().rpartition(".")[2]


def _partitioner(*names: str) -> Callable[[Given], bool]:
    return lambda given: _last(given, "partitioner.class") in names


def _format(kind: str) -> Callable[[Given], bool]:
    return lambda given: _last(given, "format.class").lower().removesuffix("format") == kind


def _true(key: str) -> Callable[[Given], bool]:
    return lambda given: given.get(key, "").strip().lower() == "true"


_VISIBLE: Mapping[str, Callable[[Given], bool]] = {
    "partition.field.name": _partitioner(*_FIELDS),
    "partition.duration.ms": _partitioner(*_TIMES),
    "path.format": _partitioner(*_TIMES),
    "locale": _partitioner(*_CLOCKS),
    "timezone": _partitioner(*_CLOCKS),
    "avro.codec": _format("avro"),
    "parquet.codec": _format("parquet"),
    "keys.format.class": _true("store.kafka.keys"),
    "headers.format.class": _true("store.kafka.headers"),
    "s3.sse.kms.key.id": lambda given: given.get("s3.ssea.name", "").startswith("aws:kms"),
}
