"""The protocols ``Format`` and ``Encoder``: write and read the objects of one file format. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Protocol

from kafkeep.records.schema import Column, Schema


class Encoder(Protocol):
    """Encodes one object: takes columns of one schema, and returns the object's bytes in order.

    A task may have a thousand open encoders. Between calls an encoder holds little memory besides
    the rows or bytes that ``buffered_bytes`` counts. Compressed streams therefore consist of
    independent blocks (gzip members, zstd frames). An encoder returns only complete blocks.
    """

    buffered_bytes: int
    """The number of bytes that ``flush`` would free."""

    def check(self, column: Column) -> None:
        """Raise RecordError when this object cannot hold a row. Add nothing."""

    def add(self, column: Column) -> bytes:
        """Add rows that pass ``check``. Return the completed bytes, which are often empty.

        Values may be null only if the schema is optional. Schemaless values are never null.
        """

    def flush(self) -> bytes:
        """Encode and return all buffered rows. The caller uses it when memory is short."""

    def finish(self) -> bytes:
        """Return the rest of the object. No rows may be added afterwards."""


class Format(Protocol):
    """Writes and reads objects of one file format. Built from options, and sent to tasks."""

    @property
    def extension(self) -> str:
        """The file extension with its dot: ``.json.gz``."""

    @property
    def codec(self) -> str:
        """The name of the compression in the log: ``none``, ``gzip``, ``zstd``."""

    def encoder(self, schema: Schema | None) -> Encoder:
        """Return the encoder of a new object with this schema (None: schemaless JSON texts)."""

    def read(self, source: BinaryIO) -> Iterator[Column]:
        """Yield the rows of an object that ``encoder`` made, in pieces of bounded size.

        ``source`` must be seekable for Parquet. Other formats read it from start to end. Raise
        DamagedError when the object is not of this format.
        """
