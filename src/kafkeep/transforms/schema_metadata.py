"""SetSchemaMetadata: name and version of a schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafkeep.config.transform_options import SetSchemaMetadataOptions
from kafkeep.data.column import Column
from kafkeep.data.rows import Rows
from kafkeep.data.schema import Kind
from kafkeep.errors import RecordError
from kafkeep.transforms.sides import get_column, set_column
from kafkeep.transforms.structs import get_fields, with_children


@dataclass(frozen=True, slots=True)
class SetSchemaMetadata:
    """Values stay what they are; without a schema there is nothing to set."""

    side: str
    options: SetSchemaMetadataOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with the changed schema."""
        column = get_column(rows, self.side)
        if column.schema is None:
            if column.array.null_count < len(column):
                raise RecordError("schema required for [updating schema metadata]")
            yield rows
            return
        new = column.schema
        if self.options.schema_name is not None:
            new = replace(new, name=self.options.schema_name)
        if self.options.schema_version is not None:
            new = replace(new, version=self.options.schema_version)
        array = column.array
        if new.kind is Kind.STRUCT:
            children = get_fields(column, defaults=self.options.replace_null_with_default)
            array = with_children(new, children, array).array
        yield set_column(rows, self.side, Column(new, array))
