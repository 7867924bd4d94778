"""The footer of a file that Arrow wrote, with another schema for the same columns."""

from __future__ import annotations

from kafkeep.formats.parquet_nodes import Node
from kafkeep.formats.parquet_thrift import (
    Value,
    listed,
    read_struct,
    split_list,
    split_struct,
    struct,
    text,
)

_MAGIC = b"PAR1"
_SCHEMA, _GROUPS = 2, 4
_COLUMNS = 1
_META = 3
_PATH = 3


def replace_schema(end: bytes, schema: Node) -> bytes:
    """Return the end of a file, which has its whole footer, with ``schema`` in it.

    Nothing in a file counts from its end: what is before the footer stays where it is.
    """
    start = len(end) - 8 - int.from_bytes(end[-8:-4], "little")
    assert start >= 0 and end.endswith(_MAGIC)
    footer = split_struct(read_struct(end[start:-8]))
    footer[_SCHEMA] = schema.to_thrift()
    paths = [listed([text(name) for name in path]) for path, _ in schema.iter_columns()]
    footer[_GROUPS] = listed([_rename(group, paths) for group in split_list(footer[_GROUPS])])
    made = struct(footer).body
    return b"".join([end[:start], made, len(made).to_bytes(4, "little"), _MAGIC])


def _rename(group: Value, paths: list[Value]) -> Value:
    """Give the columns of a row group other names."""
    fields = split_struct(group)
    columns = []
    for column, path in zip(split_list(fields[_COLUMNS]), paths, strict=True):
        chunk = split_struct(column)
        chunk[_META] = struct(split_struct(chunk[_META]) | {_PATH: path})
        columns.append(struct(chunk))
    return struct(fields | {_COLUMNS: listed(columns)})
