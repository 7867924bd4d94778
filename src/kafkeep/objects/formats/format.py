"""The protocols of a format: an encoder for each object written, a reader for each object read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Protocol

from kafkeep.records.schema import Column, Schema


class Encoder(Protocol):
    """One object in the making: columns of one schema in, the object's bytes out, in order.

    A task may have a thousand of them open: between calls an encoder holds rows or bytes that
    ``buffered_bytes`` counts, and little else. Compressed streams are therefore made of independent
    blocks (gzip members, zstd frames), each complete when it is given out.
    """

    buffered_bytes: int
    """What ``flush`` would free."""

    def check(self, column: Column) -> None:
        """RecordError when a row cannot be written into this object; nothing is taken."""

    def add(self, column: Column) -> bytes:
        """Take rows that pass ``check``; return the bytes that are ready, often none.

        No value is null unless the schema is optional; schemaless ones are never null.
        """

    def flush(self) -> bytes:
        """Return everything taken so far, encoded: memory is short."""

    def finish(self) -> bytes:
        """Return the rest of the object. Nothing may be added after it."""


class Format(Protocol):
    """A way to write and read objects. Made from options; travels to tasks."""

    @property
    def extension(self) -> str:
        """The end of object names, with its dot: ``.json.gz``."""

    @property
    def codec(self) -> str:
        """The compression's name for the log: ``none``, ``gzip``, ``zstd``."""

    def encoder(self, schema: Schema | None) -> Encoder:
        """Begin an object whose values have this schema (None: schemaless JSON texts)."""

    def read(self, source: BinaryIO) -> Iterator[Column]:
        """Read an object made by ``encoder``, in pieces of bounded size.

        ``source`` can be read forward, and is seekable when the format asks for it (Parquet).
        DamagedError when it is not such an object.
        """
