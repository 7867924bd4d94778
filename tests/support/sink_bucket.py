"""What a sink left in a bucket, seen by clients kafkeep does not use: boto3, fastavro, DuckDB."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import boto3
import duckdb
import fastavro
from tests.support.independent_client import Seen

Row = dict[str, Any]


class Bucket:
    """One archive and the log of one sink in it, as ``docs/format.md`` describes them."""

    def __init__(self, archive: str, log: str) -> None:
        self._bucket, _, self._prefix = archive.removeprefix("s3://").partition("/")
        self._log = f"_kafkeep/{log}/log/"
        self._client = boto3.client("s3")
        self._read: dict[str, Row] = {}

    def list(self, folder: str = "") -> list[str]:
        """Return the names of all objects under a folder of the archive."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{self._prefix}/{folder}"
        )
        found = [row["Key"] for page in pages for row in page.get("Contents", [])]
        return sorted(key.removeprefix(f"{self._prefix}/") for key in found)

    def get(self, key: str) -> bytes:
        answer = self._client.get_object(Bucket=self._bucket, Key=f"{self._prefix}/{key}")
        body: bytes = answer["Body"].read()
        return body

    def commits(self) -> list[str]:
        """Return the names of the commits there are."""
        return self.list(self._log)

    def entries(self) -> list[Row]:
        """Return what all commits together say of objects."""
        documents = [self._document(key) for key in self.commits()]
        assert not any("retired" in document for document in documents)
        return [entry for document in documents for entry in document.get("entries", [])]

    def positions(self, topic: str) -> dict[int, int]:
        """Return how far each partition is archived: commits say what changed, the last counts."""
        found: dict[int, int] = {}
        for key in self.commits():
            told = self._document(key).get("positions", {}).get(topic, {})
            found |= {int(number): offset for number, offset in told.items()}
        return found

    def _document(self, key: str) -> Row:
        if key not in self._read:
            self._read[key] = json.loads(self.get(key))
        return self._read[key]

    def check_log(self) -> None:
        """The commits chain, without holes, and none has left work to be done."""
        previous, intent = "", None
        for number, key in enumerate(self.commits()):
            body = self.get(key)
            document = json.loads(body)
            assert key == f"{self._log}{number:020d}.json" and document["number"] == number
            assert document["previous"] == previous
            previous = hashlib.sha256(body).hexdigest()
            intent = None if document.get("closes_intent") else intent
            intent = document.get("intent", intent)
        assert intent is None, "an intent is open"

    def rows(self, entry: Row) -> list[Any]:
        """Return an object's rows: values, keys, or for each record its headers."""
        body, view = self.get(entry["key"]), entry.get("view", "value")
        assert hashlib.sha256(body).hexdigest() == entry["sha256"]
        rows = _READERS[entry["key"].rpartition(".")[2]](body)
        assert len(rows) == entry["records"]
        if view == "keys":
            return [row["key"] if isinstance(row, dict) else row for row in rows]
        if view == "headers":
            return [row["headers"] if isinstance(row, dict) else row for row in rows]
        return rows


def _read_json(body: bytes) -> list[Any]:
    return [json.loads(line) for line in body.decode().splitlines()]


def _read_avro(body: bytes) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(body)))


def _read_parquet(body: bytes) -> list[Any]:
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        Path(file.name).write_bytes(body)
        found = duckdb.sql(f"SELECT * FROM read_parquet('{file.name}')")
        return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


_READERS = {"json": _read_json, "avro": _read_avro, "parquet": _read_parquet}


def check_partition(bucket: Bucket, entries: list[Row], records: list[Seen]) -> set[int]:
    """Every good record is in one object of values, its key and headers stand beside it.

    Returns the offsets of the others, which are in no object.
    """
    known = {row["n"]: record for record in records if (row := value_of(record)) is not None}
    bad = {record.offset for record in records if value_of(record) is None}
    windows: dict[tuple[int, int], dict[tuple[str, str], list[Any]]] = {}
    for entry in entries:
        folder, _, name = entry["key"].rpartition("/")
        files = windows.setdefault((entry["start"], entry["end"]), {})
        place = folder, entry.get("view", "value")
        assert place not in files, "two objects for one directory of a window"
        assert int(name.split("+")[2].split(".")[0]) >= entry["start"]
        files[place] = bucket.rows(entry)
    position, times = 0, Counter[int]()
    for (start, end), files in sorted(windows.items()):
        assert start >= position and bad.issuperset(_offsets(records, position, start))
        position = end
        found = [(folder, rows) for (folder, view), rows in files.items() if view == "value"]
        assert len(files) == 3 * len(found)
        for folder, rows in found:
            _check_file(folder, (start, end), rows, files, known)
            times.update(row["n"] for row in rows)
    assert bad.issuperset(_offsets(records, position, records[-1].offset + 1))
    assert times == Counter(list(known))
    return bad


def _offsets(records: list[Seen], start: int, end: int) -> list[int]:
    return [record.offset for record in records if start <= record.offset < end]


def value_of(record: Seen) -> Row | None:
    """Return a record's row; None when its value is no JSON."""
    try:
        row: Row = json.loads(record.value or b"")
    except ValueError:
        return None
    return row.get("payload", row)


def _check_file(
    folder: str,
    window: tuple[int, int],
    rows: list[Any],
    files: dict[tuple[str, str], list[Any]],
    known: dict[int, Seen],
) -> None:
    own = [known[row["n"]] for row in rows]
    assert [value_of(record) for record in own] == rows
    assert {f"kind={row['kind']}" for row in rows} == {folder.rpartition("/")[2]}
    offsets = [record.offset for record in own]
    assert offsets == sorted(offsets)
    assert window[0] <= offsets[0] and offsets[-1] < window[1]
    keys = [None if record.key is None else record.key.decode() for record in own]
    assert files[folder, "keys"] == keys
    headers = [
        [(name, None if value is None else value.decode()) for name, value in record.headers]
        for record in own
    ]
    found = files[folder, "headers"]
    assert [[(h["key"], h["value"]) for h in row] for row in found] == headers
