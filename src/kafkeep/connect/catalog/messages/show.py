"""Keys and values as text that is safe to look at. Pure but for the registry.

Content is hostile: control characters, direction marks and invisible characters become visible
signs, and long content is cut.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from kafkeep.errors import KafkeepError, RecordError
from kafkeep.options.sink.converter_settings import AvroSettings, RegistrySettings
from kafkeep.options.sink.formats import DecimalText
from kafkeep.records.converters.converter import HEAD_BYTES, TopicSubject, read_schema_id
from kafkeep.registry.client import Registry

REGISTRY_TIMEOUT_S = 3.0
_AVOID_S = 30.0
"""How long a registry that did not answer is not asked again."""
_MAX_DEPTH = 60
_ROW_BYTES = 16
_DUMPED_CHARACTERS = 5
"""About how many characters a hex dump has for each byte."""
_DECODED_BYTES = 1 << 20
"""Longer content is not parsed; its beginning is shown."""


class Decoding(StrEnum):
    """How content is read."""

    AUTO = "auto"
    JSON = "json"
    AVRO = "avro"
    TEXT = "text"
    HEX = "hex"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownContent:
    """A key or a value as text."""

    kind: str
    """null, json, avro, text or hex."""
    text: str
    note: str = ""
    """Why it is not shown as it was asked for, or which schema it has."""
    is_cut: bool = False


_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202f\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that change what a reader sees, without being seen themselves."""


def visible(text: str) -> str:
    """Return text whose control and invisible characters are replaced by visible signs."""
    return _INVISIBLE.sub(_sign, text)


def _sign(match: re.Match[str]) -> str:
    return f"\u27e8U+{ord(match[0]):04X}\u27e9"


def one_line(text: str, most: int) -> str:
    """Return the beginning of a text in one line."""
    return " ".join(text[: most * 2].split())[:most]


def hex_dump(data: bytes) -> str:
    """Return offset, bytes in hex and ASCII, 16 bytes a line."""
    lines = []
    for start in range(0, len(data), _ROW_BYTES):
        row = data[start : start + _ROW_BYTES]
        signs = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<47}  {signs}")
    return "\n".join(lines)


def indent_json(text: str) -> str:
    """Return a valid JSON text with line breaks; numbers and texts stay as they are written."""
    made: list[str] = []
    depth = 0
    for token in _TOKENS.findall(text):
        if token in "}]":
            depth -= 1
            made.append(token if made[-1] in "{[" else "\n" + "  " * depth + token)
            continue
        if made and made[-1] in ("{", "[", ","):
            made.append("\n" + "  " * depth)
        made.append(": " if token == ":" else token)
        depth += token in "{["
    return "".join(made)


_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def is_json(text: str) -> bool:
    """Return whether a text is a JSON object or array that is not nested too deeply."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    depth = most = 0
    for token in _TOKENS.findall(text):
        depth += (token in "{[") - (token in "}]")
        most = max(most, depth)
    return most <= _MAX_DEPTH


class ContentDecoder:
    """Turns keys and values into text. Keeps its registries; safe to use from any thread."""

    def __init__(
        self,
        registries: Callable[[], Sequence[RegistrySettings]],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registries = registries
        self._monotonic = monotonic
        self._opened: dict[RegistrySettings, Registry] = {}
        self._silent_until: dict[RegistrySettings, float] = {}
        self._by_kind: Mapping[Decoding, Callable[[bytes, str], ShownContent]] = {
            Decoding.AUTO: self._auto,
            Decoding.JSON: _as_json,
            Decoding.AVRO: self._as_avro,
            Decoding.TEXT: _as_text,
            Decoding.HEX: _as_hex,
        }

    def show(
        self, data: bytes | None, size: int, decoding: Decoding, *, role: str, most: int
    ) -> ShownContent:
        """Return at most about ``most`` characters of a key or value that has ``size`` bytes.

        ``data`` may be only its beginning.
        """
        if data is None:
            return ShownContent(kind="null", text="null")
        whole = len(data) >= size
        if decoding in (Decoding.AUTO, Decoding.JSON, Decoding.AVRO) and (
            not whole or size > _DECODED_BYTES
        ):
            shown = _beginning(data[:most])
        else:
            shown = self._by_kind[decoding](data, role)
        if shown.kind == "hex":
            text = hex_dump(data[: most // _DUMPED_CHARACTERS + _ROW_BYTES])
            is_cut = not whole or len(data) > most // _DUMPED_CHARACTERS + _ROW_BYTES
        else:
            text = visible(shown.text[:most])
            is_cut = not whole or len(shown.text) > most or size > _DECODED_BYTES
        return ShownContent(kind=shown.kind, text=text, note=visible(shown.note), is_cut=is_cut)

    def _auto(self, data: bytes, role: str) -> ShownContent:
        if read_schema_id(data) is not None and (self._registries() or not _is_text(data)):
            found = self._as_avro(data, role)
            if found.kind != "hex" or not _is_text(data):
                return found
        if not _is_text(data):
            return _as_hex(data, role)
        found = _as_json(data, role)
        return found if found.kind == "json" else ShownContent(kind="text", text=found.text)

    def _as_avro(self, data: bytes, role: str) -> ShownContent:
        """Decode content with a schema id in front of it, by the first registry that has the id."""
        schema_id = read_schema_id(data)
        if schema_id is None:
            return _hex_because("no schema id in front")
        problems = []
        for settings in self._registries():
            if self._silent_until.get(settings, 0.0) > self._monotonic():
                problems.append(
                    f"the registry {settings.urls[0].rpartition('@')[2]} did not answer"
                )
                continue
            try:
                return self._by_registry(self._open(settings), data, schema_id, role)
            except RecordError as error:
                problems.append(error.message)
            except KafkeepError as error:
                self._silent_until[settings] = self._monotonic() + _AVOID_S
                problems.append(error.message)
        if not problems:
            problems.append(
                f"it may have schema id {schema_id}, but no connector names a schema registry"
            )
        return _hex_because(problems[-1])

    def _open(self, settings: RegistrySettings) -> Registry:
        if settings not in self._opened:
            info = settings.basic_auth_user_info or settings.old_basic_auth_user_info
            name, _, password = (info or "").partition(":")
            self._opened[settings] = Registry(
                settings.urls,
                user=(name, password) if info else None,
                token=settings.bearer_token,
                ca_file=settings.truststore,
                timeout_s=REGISTRY_TIMEOUT_S,
            )
        return self._opened[settings]

    def _by_registry(
        self, registry: Registry, data: bytes, schema_id: int, role: str
    ) -> ShownContent:
        schema = registry.schema(schema_id)
        note = f"schema id {schema_id}"
        if schema.type == "JSON":
            return ShownContent(kind="json", text=_as_json(data[HEAD_BYTES:], role).text, note=note)
        if schema.type != "AVRO":
            return _hex_because(f"{note} is of type {schema.type}")
        # The converter compiles its kernels at the first import.
        from kafkeep.records.converters.avro import AvroConverter  # noqa: PLC0415
        from kafkeep.records.json.encode import json_texts  # noqa: PLC0415

        converter = AvroConverter(
            AvroSettings(urls=(registry.address,)), registry, TopicSubject(role, None)
        )
        [found] = converter.convert(pa.array([data], pa.binary()))
        if isinstance(found.result, RecordError):
            raise found.result
        column = found.result
        if column.schema is None:
            raise RecordError(f"{note} has no type of its own")
        text = json_texts(column.array, column.schema, DecimalText.NUMERIC)[0].as_py().decode()
        return ShownContent(kind="avro", text=indent_json(text), note=note)


def _is_text(data: bytes) -> bool:
    """Return whether content is UTF-8 with few control characters."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    begin = text[:4096]
    controls = sum(ord(char) < 0x20 and char not in "\t\n\r" for char in begin)
    return controls * 4 <= len(begin)


def _beginning(data: bytes) -> ShownContent:
    """Return the beginning of long content as text, or as hex if it is no text."""
    text = data.decode(errors="ignore")
    if len(text.encode()) >= len(data) - 3 and "\x00" not in text:
        return ShownContent(kind="text", text=text)
    return _as_hex(data, "")


def _as_json(data: bytes, _: str) -> ShownContent:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _hex_because("not UTF-8, so not JSON")
    if is_json(text):
        return ShownContent(kind="json", text=indent_json(text))
    return ShownContent(kind="text", text=text, note="not a JSON object or array")


def _as_text(data: bytes, _: str) -> ShownContent:
    try:
        return ShownContent(kind="text", text=data.decode())
    except UnicodeDecodeError:
        text = data.decode(errors="backslashreplace")
        return ShownContent(kind="text", text=text, note="not UTF-8: some bytes are escaped")


def _as_hex(data: bytes, _: str) -> ShownContent:
    return ShownContent(kind="hex", text="")  # the caller dumps as much as it shows


def _hex_because(why: str) -> ShownContent:
    return ShownContent(kind="hex", text="", note=why)
