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
"""Transforms of one side that take bytes, and make values of them."""


@dataclass(frozen=True)
class ChangeOptions:
    """Read from a flat map of texts; travels to tasks, secrets of converters included."""

    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    targets: Mapping[str, str] = field(default_factory=dict)
    """The topics' new names, where they have others: schemas are registered under these."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ChangeOptions:
        """Take what matters here; ConfigErrors names everything that is wrong at once."""
        found = ChangeOptions({key: text for key, text in given.items() if is_change_key(key)})
        if wrong := found.mistakes():
            raise ConfigErrors(wrong)
        return found

    def mistakes(self) -> dict[str, str]:
        """Return what is wrong, by key."""
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
        """Those named, by ``key``, ``value`` and ``header``."""
        found = {role: parse_converter(role, self.texts) for role in ROLES}
        return {role: told for role, told in found.items() if told is not None}

    @cached_property
    def transforms(self) -> tuple[TransformSpec, ...]:
        """What is done to records on their way back."""
        found = parse_transforms(self.texts)
        for spec in found:
            if spec.kind in _ROUTERS:
                raise ConfigErrors(
                    {f"transforms.{spec.alias}.type": "topics are renamed with topics=a:new-a"}
                )
        return found

    @property
    def drops_records(self) -> bool:
        """Whether fewer records may come out than go in."""
        return any(spec.kind == "Filter" for spec in self.transforms)

    @property
    def time_field(self) -> str | None:
        """The field of values that becomes the record's time, if one does."""
        name = self.texts.get("timestamp.extractor", "").strip()
        kind = next((one for one in EXTRACTORS if one.lower() == name.lower()), None)
        if name and kind is None and name.endswith("TimestampExtractor"):
            kind = name.rpartition("$")[2].removesuffix("TimestampExtractor")
        if name and kind not in EXTRACTORS:
            raise UsageError(f"{name!r} is none of {', '.join(EXTRACTORS)}")
        return self.texts.get("timestamp.field", "timestamp") if kind == "RecordField" else None

    @property
    def active(self) -> bool:
        """Whether records become others: converters alone say how, not that."""
        return bool(self.transforms) or self.time_field is not None

    def reads(self, role: str) -> bool:
        """Tell whether transforms look into keys or values, which then must be decoded."""
        side = role.title()
        return any(
            spec.side == side or (spec.kind == "ValueToKey" and role == "value")
            for spec in self.transforms
        )

    def changes(self, role: str) -> bool:
        """Tell whether keys or values may come out other than they went in."""
        side, made = role.title(), {"key": "ValueToKey", "value": "CsvLine"}[role]
        return any(spec.side == side or spec.kind == made for spec in self.transforms)

    def target(self, topic: str) -> str:
        """Return the name a topic is restored under."""
        return self.targets.get(topic, topic)

    def under(self: T, targets: Mapping[str, str]) -> T:
        """Return the same for topics that are restored under these names."""
        return replace(self, targets=dict(targets))

    def check_bytes(self) -> None:
        """Refuse transforms that look into bytes which no converter decodes, by name."""
        bytes_of = {role for role in ("key", "value") if role not in self.converters}
        for spec in self.transforms:
            role = "value" if spec.kind == "ValueToKey" else (spec.side or "").lower()
            if role in bytes_of and spec.kind not in _ON_BYTES:
                kind = f"{spec.kind}${spec.side}" if spec.side else spec.kind
                raise UsageError(
                    f"transforms.{spec.alias} ({kind}) looks into {role}s, which are bytes here",
                    hint=f"Name the converter that reads and writes them: {role}.converter.",
                )
            bytes_of.discard("key" if spec.kind == "ValueToKey" else role)

    def check_ids(self) -> None:
        """Refuse a converter that writes ids of its own; archived ones are to be mapped."""
        for role, told in self.converters.items():
            if role != "header" and self.changes(role) and told.kind in _WRITE_IDS:
                raise UsageError(
                    f"{role}.converter gives {role}s ids of its own registry: schemas=map cannot "
                    "be given",
                    hint="schemas=map works with transforms that leave such keys and values alone.",
                )

    def to_json(self) -> dict[str, object]:
        """Return it for the name of a restore, and for those who look at its target later."""
        open_texts = {key: text for key, text in self.texts.items() if not is_secret_key(key)}
        body = orjson.dumps(open_texts, option=orjson.OPT_SORT_KEYS)
        return {
            "transforms": [f"{spec.alias}:{spec.kind}" for spec in self.transforms],
            "changes": hashlib.sha256(body).hexdigest()[:16],
        }

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (type(self), (dict(self.texts), dict(self.targets)))


def is_change_key(key: str) -> bool:
    """Return whether a key changes records."""
    return key in _EXACT or key.startswith(_BELOW)
