"""Options that change restored records: converters, transforms, and the field of the timestamp.

The keys are Connect's. Topics are renamed with ``topics=a:new-a`` of a restore, not here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import orjson

from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors
from kafkeep.options.sink.converters import (
    ConverterClass,
    ConverterOptions,
    Role,
    is_secret_key,
    parse_converter,
)
from kafkeep.options.sink.transforms import TransformSpec, parse_transforms

T = TypeVar("T", bound="ChangeOptions")

EXTRACTORS = ("Wallclock", "Record", "RecordField")
TIME_KEYS = ("timestamp.extractor", "timestamp.field")
ROLES: tuple[Role, ...] = ("key", "value", "header")
_EXACT = ("transforms", "predicates", *TIME_KEYS, *(f"{role}.converter" for role in ROLES))
_BELOW = ("transforms.", "predicates.", *(f"{role}.converter." for role in ROLES))
_ROUTERS = ("RegexRouter", "TimestampRouter")
_WRITE_IDS = (ConverterClass.AVRO, ConverterClass.JSON_SCHEMA, ConverterClass.PROTOBUF)
_ON_BYTES = ("ByteArrayCast", "StringCast", "ParseJson")
"""Transforms of keys or values that accept bytes and return values."""


@dataclass(frozen=True)
class ChangeOptions:
    """Parsed from a flat map of texts. Pickled to tasks with the secrets of converters."""

    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    targets: Mapping[str, str] = field(default_factory=dict)
    """The new names of renamed topics; schemas are registered under these."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ChangeOptions:
        """Parse the keys that change records and ignore others; ConfigErrors names all errors."""
        found = ChangeOptions({key: text for key, text in given.items() if is_change_key(key)})
        if wrong := found.mistakes():
            raise ConfigErrors(wrong)
        return found

    def mistakes(self) -> dict[str, str]:
        """Return the errors by key."""
        wrong: dict[str, str] = {}
        for look, key in (
            ("converters", "value.converter"),
            ("transforms", "transforms"),
            ("time_field", "timestamp.extractor"),
        ):
            try:
                getattr(self, look)
            except ConfigErrors as error:
                wrong |= error.by_key
            except UsageError as error:
                wrong[key] = error.message
        return wrong

    @cached_property
    def converters(self) -> Mapping[str, ConverterOptions]:
        """The configured converters, by ``key``, ``value`` and ``header``."""
        found = {role: parse_converter(role, self.texts) for role in ROLES}
        return {role: one for role, one in found.items() if one is not None}

    @cached_property
    def transforms(self) -> tuple[TransformSpec, ...]:
        """The transforms of restored records, in order."""
        found = parse_transforms(self.texts)
        for spec in found:
            if spec.kind in _ROUTERS:
                raise ConfigErrors(
                    {f"transforms.{spec.alias}.type": "topics are renamed with topics=a:new-a"}
                )
        return found

    @property
    def drops_records(self) -> bool:
        """True if transforms may drop records."""
        return any(spec.kind == "Filter" for spec in self.transforms)

    @property
    def time_field(self) -> str | None:
        """The field of the value that becomes the timestamp of the record, if any."""
        name = self.texts.get("timestamp.extractor", "").strip()
        kind = next((one for one in EXTRACTORS if one.lower() == name.lower()), None)
        if name and kind is None and name.endswith("TimestampExtractor"):
            kind = name.rpartition("$")[2].removesuffix("TimestampExtractor")
        if name and kind not in EXTRACTORS:
            raise UsageError(f"{name!r} is none of {', '.join(EXTRACTORS)}")
        return self.texts.get("timestamp.field", "timestamp") if kind == "RecordField" else None

    @property
    def active(self) -> bool:
        """True if records are changed. Converters alone change nothing."""
        return bool(self.transforms) or self.time_field is not None

    def reads(self, role: str) -> bool:
        """Return whether transforms read fields of keys or values, which then must be decoded."""
        side = role.title()
        return any(
            spec.side == side or (spec.kind == "ValueToKey" and role == "value")
            for spec in self.transforms
        )

    def changes(self, role: str) -> bool:
        """Return whether transforms may change keys or values."""
        side, made = role.title(), {"key": "ValueToKey", "value": "CsvLine"}[role]
        return any(spec.side == side or spec.kind == made for spec in self.transforms)

    def target(self, topic: str) -> str:
        """Return the target name of a topic."""
        return self.targets.get(topic, topic)

    def under(self: T, targets: Mapping[str, str]) -> T:
        """Return a copy with these target names of topics."""
        return replace(self, targets=dict(targets))

    def check_bytes(self) -> None:
        """Raise UsageError for a transform that reads fields of bytes without a converter."""
        bytes_of = {role for role in ("key", "value") if role not in self.converters}
        for spec in self.transforms:
            role = "value" if spec.kind == "ValueToKey" else (spec.side or "").lower()
            if role in bytes_of and spec.kind not in _ON_BYTES:
                kind = f"{spec.kind}${spec.side}" if spec.side else spec.kind
                raise UsageError(
                    f"transforms.{spec.alias} ({kind}) needs decoded {role}s, but they are bytes",
                    hint=f"Set {role}.converter to the converter that reads and writes them.",
                )
            bytes_of.discard("key" if spec.kind == "ValueToKey" else role)

    def check_ids(self) -> None:
        """Raise UsageError for a converter that writes schema ids, which cannot be mapped."""
        for role, converter in self.converters.items():
            if role != "header" and self.changes(role) and converter.kind in _WRITE_IDS:
                raise UsageError(
                    f"{role}.converter writes schema ids of its own registry: schemas=map cannot "
                    "be given",
                    hint="Use schemas=map only if transforms do not change such keys or values.",
                )

    def to_json(self) -> dict[str, object]:
        """Return the options without secrets, for the id of a restore and for later comparisons."""
        open_texts = {key: text for key, text in self.texts.items() if not is_secret_key(key)}
        body = orjson.dumps(open_texts, option=orjson.OPT_SORT_KEYS)
        return {
            "transforms": [f"{spec.alias}:{spec.kind}" for spec in self.transforms],
            "changes": hashlib.sha256(body).hexdigest()[:16],
        }

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (type(self), (dict(self.texts), dict(self.targets)))


def is_change_key(key: str) -> bool:
    return key in _EXACT or key.startswith(_BELOW)
