"""The tables of docs/operate/permissions.md, as tests read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "permissions.md"
BUCKET = "the bucket"


@dataclass(frozen=True, order=True)
class KafkaRight:
    """One operation on Kafka resources whose names match ``name`` (``*`` ends a prefix)."""

    resource: str
    name: str
    operation: str


@dataclass(frozen=True, order=True)
class StoreRight:
    """One S3 action on the bucket, or on the keys under the archive's prefix that match."""

    action: str
    on: str

    def covers(self, action: str, key: str) -> bool:
        """Return whether it allows ``action`` on a key; an empty key is the bucket."""
        if action != self.action:
            return False
        return not key if self.on == BUCKET else bool(key) and fnmatchcase(key, self.on)


def kafka_rights(command: str, *, table: str = "kafka") -> set[KafkaRight]:
    """Return the rights of a command in the table ``kafka`` or ``kafka optional``."""
    return {
        KafkaRight(resource, name.strip("`"), operation)
        for commands, resource, name, operations, *_ in _rows(table)
        if command in _names(commands)
        for operation in _words(operations)
    }


def store_rights(command: str, *, table: str = "s3") -> set[StoreRight]:
    """Return the rights of a command in the table ``s3`` or ``s3 optional``."""
    return {
        StoreRight(action, on.strip("`"))
        for commands, actions, on, *_ in _rows(table)
        if command in _names(commands)
        for action in _words(actions)
    }


def commands(*tables: str) -> set[str]:
    """Return every command that the tables name."""
    return {name for table in tables for row in _rows(table) for name in _names(row[0])}


def json_blocks() -> Mapping[str, str]:
    """Return the policy documents of the page by the command that their comment names."""
    found = re.findall(r"<!-- policy of (.+?) -->\n```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return dict(found)


def _rows(table: str) -> Iterator[list[str]]:
    """Yield the cells of a table's rows, without the marks of Markdown."""
    text = PAGE.read_text().partition(f"<!-- table: {table} -->")[2].partition("<!-- end -->")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) > 2, f"{PAGE.name} has no table {table}"
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def _names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def _words(cell: str) -> list[str]:
    return [word.strip().strip("`") for word in cell.split(",")]
