"""ReplaceField: fields dropped, kept or renamed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkeep.config.transform_options import ReplaceFieldOptions
from kafkeep.data.column import Column
from kafkeep.data.json_edit import encode_string, join_object
from kafkeep.data.rows import Rows
from kafkeep.data.schema import Field
from kafkeep.transforms.sides import edit_texts, get_column, members_of, set_column
from kafkeep.transforms.structs import copy_fields, get_fields, require_struct, with_children

_PURPOSE = "field replacement"


@dataclass(frozen=True, slots=True)
class ReplaceField:
    """Keeps the order of fields; nulls pass as they are."""

    side: str
    options: ReplaceFieldOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with the fields that remain."""
        column = get_column(rows, self.side)
        if column.array.null_count == len(column):
            yield rows
        elif column.schema is None:
            yield set_column(rows, self.side, edit_texts(column, self._replace_text))
        else:
            yield set_column(rows, self.side, self._replace_typed(column))

    def _keeps(self, name: str) -> bool:
        exclude = self.options.exclude or self.options.blacklist
        include = self.options.include or self.options.whitelist
        return name not in exclude and (not include or name in include)

    def _replace_typed(self, column: Column) -> Column:
        schema = require_struct(column, _PURPOSE)
        renames = dict(self.options.renames)
        children = get_fields(column, defaults=self.options.replace_null_with_default)
        kept = [
            (Field(renames.get(field.name, field.name), field.schema), child)
            for field, child in zip(schema.fields, children, strict=True)
            if self._keeps(field.name)
        ]
        new = copy_fields(schema, [field for field, _ in kept])
        return with_children(new, [child for _, child in kept], column.array)

    def _replace_text(self, text: bytes) -> bytes:
        renames = dict(self.options.renames)
        members = [
            (member, name)
            for member in members_of(text, _PURPOSE)
            if self._keeps(name := member.name)
        ]
        taken = {renames[name] for _, name in members if name in renames}
        kept = [
            member._replace(key=encode_string(renames[name])) if name in renames else member
            for member, name in members
            # A field under the new name of another makes room for it.
            if name in renames or name not in taken
        ]
        return join_object(kept)
