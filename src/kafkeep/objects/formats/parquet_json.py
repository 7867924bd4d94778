"""Infer Parquet columns for JSON objects without a schema. Pure.

The rows of the first row group determine the columns and their types. Objects become structs, and
arrays become lists. The column holds the JSON text of a member if rows have different types for it
(a string and a number), or if neither int64 nor double holds a number exactly.

Nothing is lost. If the columns cannot represent a row completely (a new member, another type, a
null where other rows leave the member out), the column ``_json`` holds the whole text of the row,
and the other columns hold the parts that fit. ``_json`` is null for all other rows. If no row is an
object, one column ``value`` holds the texts.

A reader gets the same JSON values, with members in the order of the columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from kafkeep.numba_setup import Int64s
from kafkeep.objects.formats.parquet_tables import JSON_COLUMNS, WRAPPERS
from kafkeep.records.arrow import view_offsets
from kafkeep.records.json.exact import RawJson, dump_json, is_int64, parse_json

JSON_GROUP_BYTES = 8 << 20
"""The size of texts at which a row group ends. As Python values they take ten times as much."""
_MAX_DEPTH = 16
_MAX_MEMBERS = 1000
_EXACT_DOUBLE = 1 << 53
_ARROW = {
    "int": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "json": pa.string(),
}


_PLAIN = {bool: "bool", float: "double"}


@dataclass(frozen=True, slots=True)
class InferredType:
    """A type: a name of ``_ARROW``, ``list`` with its items, or ``struct`` with its members."""

    kind: str
    items: InferredType | None = None
    members: tuple[tuple[str, InferredType, bool], ...] = ()
    """Name, type, and whether every object has the member.

    If every object has it, a null in the column is a JSON null. Otherwise it is a missing member.
    """

    def arrow(self) -> pa.DataType:
        """Return the type of the column."""
        if self.kind == "list":
            assert self.items is not None
            return pa.list_(pa.field("element", self.items.arrow()))
        if self.kind == "struct":
            return pa.struct([(name, inferred.arrow()) for name, inferred, _ in self.members])
        return _ARROW[self.kind]

    def to_json(self) -> Any:
        """Return the form that the file's metadata stores."""
        items = None if self.items is None else self.items.to_json()
        return [self.kind, items, [[n, t.to_json(), always] for n, t, always in self.members]]

    @classmethod
    def from_json(cls, stored: Any) -> InferredType:
        """Return the type that ``to_json`` wrote."""
        kind, items, members = stored
        return cls(
            kind,
            None if items is None else cls.from_json(items),
            tuple((name, cls.from_json(inner), always) for name, inner, always in members),
        )


@dataclass(slots=True)
class ObservedType:
    """The types of the values observed for one member."""

    kinds: set[str] = field(default_factory=set)
    objects: int = 0
    present: int = 0
    items: ObservedType | None = None
    members: dict[str, ObservedType] = field(default_factory=dict)

    def observe(self, value: Any, depth: int = _MAX_DEPTH) -> None:
        """Add the type of one value."""
        self.present += 1
        if value is None:
            return
        if depth and type(value) is dict:
            self.kinds.add("struct")
            self.objects += 1
            for name, member in value.items():
                seen = self.members.get(name)
                if seen is None and len(self.members) <= _MAX_MEMBERS:
                    seen = self.members[name] = ObservedType()
                if seen is not None:
                    seen.observe(member, depth - 1)
        elif depth and type(value) is list:
            self.kinds.add("list")
            self.items = self.items or ObservedType()
            for item in value:
                self.items.observe(item, depth - 1)
        else:
            self.kinds.add(_scalar_kind(value))

    def decide(self) -> InferredType:
        """Return the type that holds all observed values."""
        if self.kinds == {"int", "double"}:
            return InferredType("double")
        if len(self.kinds) != 1:
            return InferredType("json")
        (kind,) = self.kinds
        if kind == "struct":
            return self.decide_members()
        if kind == "list":
            assert self.items is not None
            items = self.items.decide()
            return InferredType("json") if items.kind == "json" else InferredType("list", items)
        return InferredType(kind)

    def decide_members(self) -> InferredType:
        """Return the struct for the observed objects, and ignore other values."""
        taken: dict[str, str] = {}
        for name in self.members:
            if name and _is_text(name):  # in SQL, names that differ only in case are one column
                taken.setdefault(name.lower(), name)
        members = tuple(
            (name, self.members[name].decide(), self.members[name].present == self.objects)
            for name in taken.values()
        )
        if not members or len(members) > _MAX_MEMBERS:
            return InferredType("json")
        return InferredType("struct", None, members)


def infer(texts: Iterable[bytes]) -> InferredType | None:
    """Return the struct for these texts, or None when no text is an object."""
    seen = ObservedType()
    for text in texts:
        seen.observe(parse_json(text))
    found = seen.decide_members()
    return found if found.kind == "struct" else None


def project(value: Any, inferred: InferredType) -> tuple[Any, bool]:
    """Return the part of a non-null value that the column can hold, and whether it is complete."""
    match inferred.kind:
        case "json":
            return dump_json(value).decode(), True
        case "struct" if isinstance(value, dict):
            return _project_members(value, inferred)
        case "list" if isinstance(value, list):
            assert inferred.items is not None
            pairs = [
                (None, True) if item is None else project(item, inferred.items) for item in value
            ]
            return [item for item, _ in pairs], all(exact for _, exact in pairs)
        case "double" if type(value) is int:
            return (float(value) if abs(value) <= _EXACT_DOUBLE else None), False
        case kind:
            fits = not isinstance(value, dict | list) and _scalar_kind(value) == kind
            return (value if fits else None), fits


def _project_members(value: dict[str, Any], inferred: InferredType) -> tuple[dict[str, Any], bool]:
    made, matched, exact = {}, 0, True
    for name, inner, always in inferred.members:
        if name not in value:
            exact = exact and (inner.kind == "json" or not always)
            continue
        matched += 1
        member = value[name]
        if member is None and inner.kind != "json":
            exact = exact and always
            continue
        if _scalar_kind(member) == inner.kind != "json":
            made[name] = member
            continue
        made[name], fits = project(member, inner)
        exact = exact and fits
    return made, exact and matched == len(value)


def rebuild(stored: Any, inferred: InferredType) -> Any:
    """Return the JSON value of a stored value. Reverses ``project``."""
    if stored is None:
        return None
    if inferred.kind == "json":
        return RawJson(stored)
    if inferred.kind == "list":
        assert inferred.items is not None
        return [rebuild(item, inferred.items) for item in stored]
    if inferred.kind != "struct":
        return stored
    made = {}
    for name, inner, always in inferred.members:
        if stored[name] is not None:
            made[name] = rebuild(stored[name], inner)
        elif always and inner.kind != "json":
            made[name] = None
    return made


def _scalar_kind(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return "string" if value.isascii() or _is_text(value) else "json"
    if kind is int:
        return "int" if is_int64(value) else "json"
    return _PLAIN.get(kind, "json")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # an unpaired surrogate, valid in JSON but not in UTF-8
        return False
    return True


class JsonTables:
    """Tables of columns inferred from the first row group."""

    group_bytes = JSON_GROUP_BYTES
    nodes = None

    def __init__(self, view: str) -> None:
        self._view = view
        self._inferred: InferredType | None = None
        self._texts = WRAPPERS[view][1]
        """The name of the column for whole texts."""
        self._begun = False

    def check(self, array: pa.Array) -> None:
        """See Tables. Every JSON document fits."""

    def ends(self, array: pa.Array) -> Int64s:
        """See Tables."""
        ends: Int64s = view_offsets(array)[1:].astype(np.int64)
        return ends - int(view_offsets(array)[0])

    def to_table(self, pieces: list[pa.Array]) -> pa.Table:
        """See Tables."""
        if not self._begun:
            self._begin(pieces)
        if self._inferred is None:
            texts = pa.chunked_array([piece.cast(pa.string()) for piece in pieces])
            return pa.table({self._texts: texts})
        return pa.concat_tables([self._to_slice(piece) for piece in pieces]).combine_chunks()

    def _begin(self, pieces: list[pa.Array]) -> None:
        self._begun = True
        if self._view != "value":
            return
        self._inferred = infer(text for piece in pieces for text in piece.to_pylist())
        if self._inferred is not None:
            taken = {name.lower() for name, _, _ in self._inferred.members}
            self._texts = "_json"
            while self._texts in taken:
                self._texts += "_"

    def _to_slice(self, array: pa.Array) -> pa.Table:
        assert self._inferred is not None
        rows, texts = [], []
        for document in array.to_pylist():
            row, exact = project(parse_json(document), self._inferred)
            rows.append({} if row is None else row)
            texts.append(None if exact else document)
        kind = self._inferred.arrow()
        struct = pa.array(rows, kind)
        columns = [struct.field(i) for i in range(kind.num_fields)]
        columns.append(pa.array(texts, pa.binary()).cast(pa.string()))
        return pa.Table.from_arrays(columns, schema=pa.schema([*kind, (self._texts, pa.string())]))

    def metadata(self) -> dict[bytes, bytes]:
        """See Tables."""
        inferred = None if self._inferred is None else self._inferred.to_json()
        return {JSON_COLUMNS: orjson.dumps({"texts": self._texts, "columns": inferred})}

    def writer_options(self) -> dict[str, Any]:
        """See Tables."""
        return {}
