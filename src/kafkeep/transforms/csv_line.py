"""CsvLine: a record as one line of text, as Aiven's sink writes it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from kafkeep.config.other_transform_options import CsvLineOptions
from kafkeep.data.column import OPTIONAL_BYTES, Column
from kafkeep.data.rows import Rows
from kafkeep.errors import RecordError
from kafkeep.transforms.sides import set_column


@dataclass(frozen=True, slots=True)
class CsvLine:
    """The value becomes the line, without its end; nulls and missing times are empty."""

    options: CsvLineOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with lines for values."""
        columns = [self._texts(rows, name) for name in self.options.fields]
        lines = [b",".join(line) for line in zip(*columns, strict=True)]
        yield set_column(rows, "Value", Column(OPTIONAL_BYTES, pa.array(lines, pa.binary())))

    def _texts(self, rows: Rows, name: str) -> list[bytes]:
        match name:
            case "offset":
                return [b"%d" % offset for offset in rows.offsets.tolist()]
            case "timestamp":
                return [b"" if at < 0 else b"%d" % at for at in rows.timestamps.tolist()]
            case "key":
                return _bytes_of(rows.key, encoded=True)
            case _:
                return _bytes_of(rows.value, encoded=self.options.value_encoding == "base64")


def _bytes_of(column: Column, *, encoded: bool) -> list[bytes]:
    if column.array.type not in (pa.binary(), pa.string()) or column.schema is None:
        raise RecordError("a line of CSV is made of bytes or text, not of a structure")
    found = column.array.cast(pa.binary()).to_pylist()
    return [b"" if one is None else base64.b64encode(one) if encoded else one for one in found]
