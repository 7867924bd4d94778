"""What objects the sink must write, worked out from the records by the rules alone.

A small model, one record at a time, for cases where the real sink failed or kafkeep differs on
purpose. It shares no code with kafkeep. A test shows that it gives the real sink's own objects for
every case of the kinds it knows, so that it may be believed for the others.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tests.support.golden.cases import GoldenCase, GoldenRecord
from tests.support.golden.compare import Rows, parse_json

JSON, BYTES = "JsonFormat", "ByteArrayFormat"
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
Directory = Callable[[GoldenRecord], str]


@dataclass
class _File:
    """Records that go into one object, in order."""

    directory: str
    records: list[GoldenRecord] = field(default_factory=list)


def knows(config: Mapping[str, str]) -> bool:
    """Whether the model covers a configuration: schemaless JSON or bytes, no change of values."""
    short = {name: value.rpartition(".")[2] for name, value in config.items()}
    formats = {short["format.class"], short.get("keys.format.class", "AvroFormat")}
    if config.get("store.kafka.keys") != "true":
        formats = {short["format.class"]}
    return (
        formats <= {JSON, BYTES}
        and short.get("value.converter") in ("JsonConverter", "ByteArrayConverter")
        and config.get("value.converter.schemas.enable", "false") == "false"
        and config.get("transforms") in (None, "r")
        and "rotate.schedule.interval.ms" not in config
    )


def objects_by_rule(
    case: GoldenCase,
    records: Sequence[GoldenRecord] | None = None,
    *,
    config: Mapping[str, str] | None = None,
    ours: bool = True,
) -> dict[str, bytes]:
    """Return every object by its key; tails that no rule closed are not in it.

    ``ours`` tells kafkeep's rules from the real sink's where they differ: which records are read,
    whether record time closes files in any directory, how a field stands in a path.
    """
    config = {**case.config, **(config or {})}
    seen = [r for r in records or case.records if _is_read(r, config, ours=ours)]
    made: dict[str, bytes] = {}
    for topic in case.topics:
        for partition in range(case.topics[topic].partitions):
            mine = [r for r in seen if (r.topic, r.partition) == (topic, partition)]
            for file in _iter_closed(mine, config, ours=ours):
                made.update(_objects(file, config, ours=ours))
    return made


def exactly(objects: Mapping[str, bytes]) -> dict[str, Rows | bytes]:
    """Ask for values byte by byte, as they came; for keys and headers by value."""
    aside = re.compile(r"\.(keys|headers)\.[\w.]+$")
    return {
        key: data if aside.search(key) else Rows("bytes", (_plain(key, data),))
        for key, data in objects.items()
    }


def is_json(value: bytes) -> bool:
    """Whether it is exactly one JSON document."""
    try:
        parse_json(value)
    except ValueError:
        return False
    return True


def _plain(key: str, data: bytes) -> bytes:
    return gzip.decompress(data) if key.endswith(".gz") else data


def _is_read(record: GoldenRecord, config: Mapping[str, str], *, ours: bool) -> bool:
    """Whether a record reaches a file: it is visible, is no dropped tombstone and no bad one."""
    default = "read_committed" if ours else "read_uncommitted"
    committed = config.get("consumer.override.isolation.level", default) == "read_committed"
    if record.aborted and committed:
        return False
    if record.value is None:
        return config.get("behavior.on.null.values") == "write"
    wants_json = config["value.converter"].endswith("JsonConverter")
    return not wants_json or is_json(record.value)


def _iter_closed(
    records: Sequence[GoldenRecord], config: Mapping[str, str], *, ours: bool
) -> Iterator[_File]:
    """Yield files as they close. One rule closes every open file of the topic partition."""
    flush_size = int(config["flush.size"])
    interval = int(config.get("rotate.interval.ms", -1))
    by_time = _by_time(config)
    directory = _directory(config, ours=ours)
    files: dict[str, _File] = {}
    since, last, count = 0, "", 0
    for record in records:
        place = directory(record)
        late = interval > 0 and count and record.timestamp - since >= interval
        moved = interval > 0 and count and place != last and by_time
        if (late and (by_time or ours)) or moved:
            yield from files.values()
            files, count = {}, 0
        if not count:
            since = record.timestamp
        files.setdefault(place, _File(place)).records.append(record)
        last, count = place, count + 1
        if count >= flush_size:
            yield from files.values()
            files, count = {}, 0


def _by_time(config: Mapping[str, str]) -> bool:
    return config["partitioner.class"].endswith(
        ("TimeBasedPartitioner", "DailyPartitioner", "HourlyPartitioner")
    )


def _directory(config: Mapping[str, str], *, ours: bool) -> Directory:
    """Return where a record's file goes, below its topic."""
    deleted = _folder_of_tombstones(config, ours=ours)
    if _by_time(config):
        zone = ZoneInfo(config["timezone"])
        daily = config["partitioner.class"].endswith("DailyPartitioner")
        shape = "year=%Y/month=%m/day=%d" + ("" if daily else "/hour=%H")
        return lambda record: _local(record.timestamp, zone).strftime(shape)
    if config["partitioner.class"].endswith("FieldPartitioner"):
        name = config["partition.field.name"]
        raw = not ours or config.get("partition.path.encoding") == "raw"
        return lambda record: f"{name}={_path_part(_field(record, name), raw=raw)}"
    return lambda record: (
        deleted if deleted and record.value is None else f"partition={record.partition}"
    )


def _folder_of_tombstones(config: Mapping[str, str], *, ours: bool) -> str | None:
    """Return the folder that tombstones are written to; None when they stand in line."""
    return config.get("tombstone.encoded.partition", None if ours else "tombstone")


def _local(timestamp: int, zone: ZoneInfo) -> datetime:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp)).astimezone(zone)


def _field(record: GoldenRecord, name: str) -> Any:
    document = json.loads(record.value or b"{}")
    return document.get("payload", document).get(name)


def _path_part(value: Any, *, raw: bool) -> str:
    """Write a field's value into a path: what would change the path is percent-encoded."""
    if value is None:
        return "null"
    return str(value) if raw else encode_path_part(str(value))


def encode_path_part(text: str) -> str:
    """Percent-encode what would change or leave the path: / \\ % and control characters.

    Nothing at all is ``%empty``, and the text ``null`` must not be taken for no value.
    """
    if text in ("", "null", ".", ".."):
        return {"": "%empty", "null": "%6Eull"}.get(text, text.replace(".", "%2E"))
    unsafe = re.compile(r"[/\\%\x00-\x1f\x7f]")
    return unsafe.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode()), text)


def _objects(file: _File, config: Mapping[str, str], *, ours: bool) -> Iterator[tuple[str, bytes]]:
    """Yield the objects of one file: values, and keys and headers beside them when asked for."""
    yield from (
        (_key(file, config, suffix + _extension(kind, config)), _packed(content, config))
        for suffix, kind, content in _views(file, config, ours=ours)
    )


def _views(
    file: _File, config: Mapping[str, str], *, ours: bool
) -> Iterator[tuple[str, str, bytes]]:
    kind = config["format.class"].rpartition(".")[2]
    if file.directory != _folder_of_tombstones(config, ours=ours):
        values = [b"null" if r.value is None else r.value for r in file.records]
        lines = [_text(v) for v in values] if kind == JSON else values
        yield "", kind, _joined(lines, kind, config)
    if config.get("store.kafka.keys") == "true":
        kind = config["keys.format.class"].rpartition(".")[2]
        keys = [_json_key(r.key) if kind == JSON else r.key or b"" for r in file.records]
        yield ".keys", kind, _joined(keys, kind, config)
    if config.get("store.kafka.headers") == "true":
        as_base64 = config.get("header.converter", "").endswith("ByteArrayConverter")
        headers = [_json_headers(r, as_base64=as_base64) for r in file.records]
        yield ".headers", JSON, _joined(headers, JSON, config)


def _joined(lines: Sequence[bytes], kind: str, config: Mapping[str, str]) -> bytes:
    end = "\n" if kind == JSON else config.get("format.bytearray.separator", "\n")
    return b"".join(line + end.encode() for line in lines)


def _text(value: bytes) -> bytes:
    """Put a JSON document on one line: a line break can only be between its tokens."""
    return value.replace(b"\r", b"").replace(b"\n", b"")


def _json_key(key: bytes | None) -> bytes:
    return json.dumps(None if key is None else key.decode()).encode()


def _json_headers(record: GoldenRecord, *, as_base64: bool) -> bytes:
    """Write headers as kafkeep does: text as ``value``, other bytes as ``bytes`` in base64."""
    made: list[dict[str, str | None]] = []
    for name, value in record.headers:
        packed = None if value is None else base64.b64encode(value).decode()
        try:
            text = packed if as_base64 or value is None else value.decode()
            made.append({"key": name, "value": text})
        except UnicodeDecodeError:
            made.append({"key": name, "bytes": packed})
    return json.dumps({"headers": made}).encode()


def _extension(kind: str, config: Mapping[str, str]) -> str:
    plain = ".json" if kind == JSON else config.get("format.bytearray.extension", ".bin")
    return plain + (".gz" if config.get("s3.compression.type") == "gzip" else "")


def _packed(content: bytes, config: Mapping[str, str]) -> bytes:
    return gzip.compress(content) if config.get("s3.compression.type") == "gzip" else content


def _key(file: _File, config: Mapping[str, str], end: str) -> str:
    first = file.records[0]
    topic = f"routed-{first.topic}" if "transforms.r.replacement" in config else first.topic
    width = int(config.get("filename.offset.zero.pad.width", 10))
    slash, plus = config.get("directory.delim", "/"), config.get("file.delim", "+")
    name = plus.join((topic, str(first.partition), f"{first.offset:0{width}d}")) + end
    root = config.get("topics.dir", "topics")
    return slash.join([*([root] if root else []), topic, file.directory.replace("/", slash), name])
