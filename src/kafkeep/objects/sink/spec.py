"""The sink options that the log stores: written with each intent, read to open objects.

Entries hold the format, compression and converter of each object. Intents hold the other options
of a sink without secrets: the separator of bytes objects, encodings, registries. Only
``load_read_options`` reads the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from kafkeep.archive.commit import Intent
from kafkeep.archive.document import dump_document
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.read_commits import decode_stored, read_stored_commit
from kafkeep.archive.view import ArchiveView
from kafkeep.errors import DamagedError, UsageError
from kafkeep.options.record_changes import ChangeOptions
from kafkeep.options.sink.converters import ConverterClass, ConverterOptions, Role, parse_class
from kafkeep.options.sink.formats import Compression, FormatKind, FormatOptions
from kafkeep.options.sink.sink import SinkOptions, SinkSpec
from kafkeep.options.unlogged import UnloggedOptions


class RotateReason(StrEnum):
    """Why a window was closed."""

    COUNT = "flush.size records"
    BYTES = "flush.bytes reached"
    INTERVAL = "rotate.interval.ms passed by the records' time"
    PATH = "the directory changed"
    FILES = "partitioner.max.open.files are open"
    SCHEMA = "the schema changed"
    SCHEDULE = "rotate.schedule.interval.ms is due"
    IDLE = "rotate.interval.ms passed and no record came"
    END = "end of a one-shot backup"
    AGE = "records have waited long enough"
    GAP = "the records that follow are gone from Kafka"
    PLAN = "end of the planned range"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkIntent:
    """The sink part of an intent: its options, and the partitions whose tail closes by time."""

    sink: SinkSpec
    closes: Mapping[str, str] = field(default_factory=dict)
    """Partition → the reason to close its tail at the end of its range."""
    keeps_aborted: bool = False

    def closes_tail(self, partition_id: PartitionId) -> RotateReason | None:
        """Return the reason to close the tail of a partition, or None when it stays open."""
        reason = self.closes.get(str(partition_id))
        return None if reason is None else RotateReason(reason)

    def digest(self, log_name: str) -> str:
        """Return the digest of the options that determine the bytes of an object.

        Records never change. Two objects with the same log, options, first offset, end and count
        are therefore equal, even if different plans wrote them.
        """
        document = {"log": log_name, "options": dict(self.sink.texts)}
        return hashlib.sha256(dump_document(document)).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the form that an intent stores."""
        return {
            "sink": dict(self.sink.texts),
            "closes": dict(self.closes),
            "keeps_aborted": self.keeps_aborted,
        }

    @classmethod
    def from_json(
        cls, document: Mapping[str, Any], secrets: Mapping[str, str] | None = None
    ) -> SinkIntent:
        """Return the value that an intent stores. ``secrets`` come from elsewhere."""
        return cls(
            sink=SinkSpec(document["sink"], secrets or {}),
            closes=document["closes"],
            keeps_aborted=document["keeps_aborted"],
        )


REGISTERED = (ConverterClass.AVRO, ConverterClass.JSON_SCHEMA, ConverterClass.PROTOBUF)
"""Converters that keep their schemas in a registry."""
_ROLES: Mapping[str, Role] = {
    "value": "value",
    "keys": "key",
    "tombstones": "key",
    "headers": "header",
}


@dataclass(frozen=True)
class ReadOptions:
    """How to read the objects of a sink, and how to change their records."""

    spec: SinkSpec | None = None
    """The options of the sink; None when its log does not hold them."""
    registers: bool = True
    """Whether reading may register schemas. False in read-only commands."""
    unlogged: UnloggedOptions | None = None
    """For unlogged objects: their formats and converters, and the changes to their records."""
    asked: ChangeOptions | None = None
    """The changes to records of a log; None when they stay unchanged."""

    @property
    def changes(self) -> ChangeOptions | None:
        """The changes to apply; None when records keep their source bytes."""
        return self.asked or self.unlogged

    @cached_property
    def sink(self) -> SinkOptions | None:
        """The parsed options; None when the log has none or this version cannot parse them."""
        try:
            return self.spec.options if self.spec is not None else None
        except UsageError:
            return None

    def converter(self, entry: Entry) -> ConverterOptions | None:
        """Return the converter that wrote an object's rows, or None when the entry has none.

        Its settings come from the options in the log, if these have the same converter.
        """
        role = _ROLES[entry.view]
        if not entry.converter:
            return None
        try:
            kind = parse_class(entry.converter)
        except UsageError as error:
            raise DamagedError(f"{entry.key}: {error.message}") from error
        known = self._known_converter(role)
        if known is not None and known.kind is kind:
            return known
        output = {"schemas.enable": "false"} if kind is ConverterClass.JSON else {}
        return ConverterOptions(role, kind, output)

    def read_only(self) -> ReadOptions:
        """Return the same options for a reader that registers no schema."""
        return replace(self, registers=False)

    def _known_converter(self, role: Role) -> ConverterOptions | None:
        if self.sink is None:
            return None
        if role == "header":
            return self.sink.header_converter
        return self.sink.key if role == "key" else self.sink.value

    def format(self, entry: Entry) -> FormatOptions:
        """Return the format options for reading an object."""
        try:
            kind = FormatKind(entry.format)
            whole = kind in (FormatKind.JSON, FormatKind.BYTES)
            compression = Compression(entry.codec) if whole else Compression.NONE
        except ValueError as error:
            raise DamagedError(
                f"{entry.key}: the format {entry.format} ({entry.codec}) is not known"
            ) from error
        stored = self.sink.format if self.sink is not None else FormatOptions(format_class=kind)
        if self.unlogged is not None:
            stored = self.unlogged.format
        return FormatOptions(
            format_class=kind,
            s3_compression_type=compression,
            format_bytearray_separator=stored.format_bytearray_separator,
            enhanced_avro_schema_support=stored.enhanced_avro_schema_support,
        )


NO_OPTIONS = ReadOptions()


def load_read_options(store: ObjectStore, view: ArchiveView) -> ReadOptions:
    """Return the options of the sink that wrote a log, from its last intent.

    The intent is usually in one of the last three commits. It is older if later commits only hold
    group offsets.
    """
    if view.intent is not None and (found := _options(view.intent)) is not None:
        return found
    for number in range(view.commit, -1, -1):
        try:
            commit = decode_stored(view.name, read_stored_commit(store, view.name, number))
        except DamagedError:
            continue  # readers that need this commit report the damage
        if commit.changes.intent is not None:
            return _options(commit.changes.intent) or ReadOptions()
    return ReadOptions()


def _options(intent: Intent) -> ReadOptions | None:
    texts = intent.options.get("sink")
    return ReadOptions(SinkSpec(dict(texts))) if isinstance(texts, Mapping) else None
