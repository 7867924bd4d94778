"""Open the converter that a configuration names."""

from __future__ import annotations

from typing import Literal

from kafkeep.errors import UsageError
from kafkeep.options.sink.converter_settings import (
    AvroSettings,
    JsonSchemaSettings,
    JsonSettings,
    ProtobufSettings,
    StringSettings,
)
from kafkeep.options.sink.converters import ConverterClass, ConverterOptions
from kafkeep.records.converters.converter import Converter, TopicSubject
from kafkeep.records.converters.primitives import NumberConverter, RawConverter, StringConverter
from kafkeep.records.converters.sinetstream import SinetStreamConverter
from kafkeep.records.schema import Kind

_NUMBERS = {
    ConverterClass.LONG: Kind.INT64,
    ConverterClass.INTEGER: Kind.INT32,
    ConverterClass.SHORT: Kind.INT16,
    ConverterClass.FLOAT: Kind.FLOAT32,
    ConverterClass.DOUBLE: Kind.FLOAT64,
    ConverterClass.BOOLEAN: Kind.BOOLEAN,
}


def open_converter(
    role: Literal["key", "value"], options: ConverterOptions, topic: str | None = None
) -> Converter:
    """Return the converter; call this in the task that uses it.

    ``topic`` determines the registry subject. It is required to produce Avro values.
    """
    match options.kind:
        case ConverterClass.BYTES | ConverterClass.ALREADY_BYTES:
            return RawConverter()
        case ConverterClass.STRING:
            return StringConverter(options.settings(StringSettings).encoding)
        case ConverterClass.SINETSTREAM:
            return SinetStreamConverter()
        case ConverterClass.JSON:
            # Each converter imports its own libraries, so it is imported only when it is used.
            from kafkeep.records.converters.json import JsonConverter  # noqa: PLC0415

            json = options.settings(JsonSettings)
            return JsonConverter(json.schemas_enable, json.decimal_format)
        case kind if kind in _NUMBERS:
            return NumberConverter(_NUMBERS[kind])
        case _:
            return _open_registered(options, TopicSubject(role, topic))


def _open_registered(options: ConverterOptions, subject: TopicSubject) -> Converter:
    from kafkeep.registry.client import open_registry  # noqa: PLC0415

    match options.kind:
        case ConverterClass.AVRO:
            from kafkeep.records.converters.avro import AvroConverter  # noqa: PLC0415

            avro = options.settings(AvroSettings)
            return AvroConverter(avro, open_registry(avro), subject)
        case ConverterClass.JSON_SCHEMA:
            from kafkeep.records.converters.json_schema import JsonSchemaConverter  # noqa: PLC0415

            json = options.settings(JsonSchemaSettings)
            return JsonSchemaConverter(json, open_registry(json), subject)
        case ConverterClass.PROTOBUF:
            options.require_packages()
            from kafkeep.records.converters.protobuf import ProtobufConverter  # noqa: PLC0415

            protobuf = options.settings(ProtobufSettings)
            return ProtobufConverter(protobuf, open_registry(protobuf), subject)
        case other:
            raise UsageError(f"{other.value} is not for {subject.role}s")
