"""ValueToKey: a key made of fields of the value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from kafkeep.config.transform_options import ValueToKeyOptions
from kafkeep.data.column import Column
from kafkeep.data.json_edit import Member, encode_string, find_member, join_object
from kafkeep.data.rows import Rows
from kafkeep.errors import RecordError
from kafkeep.transforms.sides import members_of
from kafkeep.transforms.structs import get_fields, require_struct, struct_schema, with_children

_PURPOSE = "copying fields from value to key"


@dataclass(frozen=True, slots=True)
class ValueToKey:
    """A record without a value has no such key: RecordError, as in Connect."""

    options: ValueToKeyOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with new keys."""
        value = rows.value
        yield replace(rows, key=self._texts(value) if value.schema is None else self._typed(value))

    def _typed(self, value: Column) -> Column:
        schema = require_struct(value, _PURPOSE, nulls=False)
        children = get_fields(value, defaults=self.options.replace_null_with_default)
        names = [field.name for field in schema.fields]
        for name in self.options.fields:
            if name not in names:
                raise RecordError(f"field does not exist: {name}")
        places = [names.index(name) for name in self.options.fields]
        new = struct_schema([schema.fields[place] for place in places])
        return with_children(new, [children[place] for place in places], value.array)

    def _texts(self, value: Column) -> Column:
        keys = [(name, encode_string(name)) for name in dict.fromkeys(self.options.fields)]
        texts = []
        for text in value.array.to_pylist():
            members = members_of(text, _PURPOSE)
            made = [Member(key, find_member(members, name) or b"null") for name, key in keys]
            texts.append(join_object(made))
        return Column(None, pa.array(texts, type=pa.binary()))
