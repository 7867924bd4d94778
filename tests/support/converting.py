"""What the tests of converters share: registries that are already filled, columns out of pieces."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa

from kafkeep.archive.schemas import RegisteredSchema
from kafkeep.records.converters.converter import ConvertedRange, Converter
from kafkeep.records.schema import Column
from kafkeep.registry.client import Registry


class MemoryRegistry(Registry):
    """A registry whose answers are already there; ``register`` hands out the next number."""

    def __init__(self, *schemas: RegisteredSchema, subject: str = "t-value") -> None:
        super().__init__(("http://127.0.0.1:9",))
        self.subject = subject
        for number, schema in enumerate(schemas, 1):
            self._add(number, schema)

    def _add(self, number: int, schema: RegisteredSchema) -> None:
        self._schemas[number] = schema
        self._versions[number] = {self.subject: number}
        self._named[self.subject, number] = schema

    def find(self, subject: str, schema: RegisteredSchema) -> int | None:
        return next((n for n, known in self._schemas.items() if known == schema), None)

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        self._add(len(self._schemas) + 1, schema)
        return len(self._schemas)


def binary(*values: bytes | None) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def framed(schema_id: int, data: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + data


def columns(converter: Converter, *values: bytes | None) -> list[Column]:
    pieces = list(converter.convert(binary(*values)))
    assert_covers(pieces, len(values))
    return [piece.result for piece in pieces if isinstance(piece.result, Column)]


def one_column(converter: Converter, *values: bytes | None) -> Column:
    (column,) = columns(converter, *values)
    assert len(column) == len(values)
    return column


def assert_covers(pieces: list[ConvertedRange], count: int) -> None:
    """Pieces are in order and leave nothing out; an error stands for one record."""
    assert [piece.start for piece in pieces] == [0, *(p.stop for p in pieces)][: len(pieces)]
    assert (pieces[-1].stop if pieces else 0) == count
    for piece in pieces:
        if isinstance(piece.result, Column):
            assert len(piece.result) == piece.stop - piece.start
        else:
            assert piece.stop == piece.start + 1


Answer = tuple[int, bytes]


@contextmanager
def answering(answers: Callable[[str], Answer]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server on this machine that answers GET requests; it keeps what it was asked."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append({"path": self.path} | dict(self.headers))
            status, body = answers(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def answering_paths(answers: dict[str, Answer]) -> Iterator[str]:
    with answering(answers.__getitem__) as (url, _):
        yield url
