"""Records that have no place."""

from __future__ import annotations

from kafkeep.data.rows import Rows
from kafkeep.errors import RecordError


class RowProblem(Exception):
    """A row of a column cannot be read; whoever knows the rows says which record it is."""

    def __init__(self, row: int, why: str, hint: str | None = None) -> None:
        super().__init__(row, why)
        self.row = row
        self.why = why
        self.hint = hint

    def to_error(self, rows: Rows) -> RecordError:
        """Return the error that names the record."""
        return RecordError(
            f"{rows.topic}-{rows.partition} offset {rows.offsets[self.row]}:"
            f" error encoding partition: {self.why}",
            hint=self.hint,
        )
