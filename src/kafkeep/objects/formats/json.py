"""The JSON format: one document per line, with a line break after every line. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.errors import DamagedError
from kafkeep.objects.formats.bytes import SeparatedEncoder, iter_split
from kafkeep.objects.formats.compress import SUFFIXES, open_decompressed
from kafkeep.options.sink.formats import DecimalText, FormatOptions
from kafkeep.records.json.encode import json_texts
from kafkeep.records.schema import Column, Schema, has_decimals

_BREAK = b"\n"


@dataclass(frozen=True)
class JsonFormat:
    """JSON lines. Schemaless values stay unchanged; others are written as by JsonConverter."""

    options: FormatOptions

    @property
    def extension(self) -> str:
        """See Format."""
        return ".json" + SUFFIXES[self.options.s3_compression_type]

    @property
    def codec(self) -> str:
        """See Format."""
        return self.options.s3_compression_type.value

    def encoder(self, schema: Schema | None) -> SeparatedEncoder:
        """See Format."""
        numeric = self.options.json_decimal_format is DecimalText.NUMERIC
        may_fail = numeric and schema is not None and has_decimals(schema)
        return SeparatedEncoder(self.options, _BREAK, self._texts, may_fail=may_fail)

    def _texts(self, column: Column) -> pa.Array:
        if column.schema is None:
            return column.array
        return json_texts(column.array, column.schema, self.options.json_decimal_format)

    def read(self, source: BinaryIO) -> Iterator[Column]:
        """Yield the lines as schemaless columns, in pieces of about 4 MiB. See Format.

        The last line may lack its line break, and a line break may be CR LF. Raise DamagedError
        when a line is empty or not UTF-8. The reader does not check that a line is valid JSON.
        """
        plain = open_decompressed(source, self.options.s3_compression_type)
        row = 0
        for lines in iter_split(plain, _BREAK, trim=True):
            _check_lines(lines, row)
            row += len(lines)
            yield Column(None, lines)


def _check_lines(lines: pa.Array, row: int) -> None:
    shortest = pc.min(pc.binary_length(lines)).as_py()
    if shortest == 0:
        empty = row + pc.index(pc.binary_length(lines), 0).as_py() + 1
        raise DamagedError(f"line {empty} of a JSON object is empty")
    try:
        lines.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid as error:
        raise DamagedError(f"a JSON object is not UTF-8 after line {row}: {error}") from error
