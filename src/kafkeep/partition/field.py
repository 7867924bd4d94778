"""Directories made of fields, keys and headers: ``country=de/tenant=acme``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafkeep.config.partition import field_label
from kafkeep.data.rows import Rows
from kafkeep.partition.distinct import Int64s, join_codes, merge_equal
from kafkeep.partition.extract import Extractor
from kafkeep.partition.partitioner import Placed
from kafkeep.partition.paths import MAX_BYTES, name_part
from kafkeep.partition.problem import RowProblem
from kafkeep.partition.values import Texts, read_column, read_header

_TOGETHER_BYTES = 480


@dataclass(frozen=True, slots=True)
class FieldPaths:
    """Writes some fields of a record as a path, in the order they were named."""

    names: tuple[str, ...]
    """As in ``partition.field.name``."""
    raw: bool

    def read(self, rows: Rows) -> tuple[Int64s, list[str]]:
        """Return for each record its place in a list of paths, no two of them equal.

        RecordError when a record has none.
        """
        codes: Int64s = np.zeros(len(rows), np.int64)
        paths: list[str] = []
        room = max(64, min(MAX_BYTES, _TOGETHER_BYTES // len(self.names)))
        for name in self.names:
            try:
                texts = _read(rows, name)
                label = field_label(name)
                parts = [name_part(label, t, raw=self.raw, max_bytes=room) for t in texts.texts]
            except RowProblem as problem:
                raise problem.to_error(rows) from problem
            if not paths:
                codes, paths = merge_equal(texts.codes, parts)
            else:
                codes, paths = join_codes(codes, paths, texts.codes, parts)
        return codes, paths


def _read(rows: Rows, name: str) -> Texts:
    source, colon, rest = name.partition(":")
    if colon and source == "header":
        return read_header(rows.headers, rest)
    if colon and source == "key":
        return read_column(rows.key, rest)
    return read_column(rows.value, name)


@dataclass(frozen=True, slots=True)
class FieldPartitioner:
    """Directories made of fields alone."""

    fields: FieldPaths
    extractor: Extractor
    """Of times that objects are closed by; no record fails for want of one."""

    def place(self, rows: Rows, *, at_ms: int) -> Placed:
        """Place by fields; RecordError names the record that lacks one."""
        codes, paths = self.fields.read(rows)
        times = self.extractor.read_or_kafka(rows, at_ms=at_ms)
        return Placed(codes.astype(np.int32), tuple(paths), times)
