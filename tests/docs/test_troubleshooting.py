"""The messages that the troubleshooting page explains are messages of the code."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operate" / "troubleshooting.md"
_ROW = re.compile(r"^\| (.+?) \|", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")
GAP = "…"


def _text(node: ast.AST) -> str | None:
    """Return a string literal; what an f-string fills in becomes a gap."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or GAP for part in node.values)
    return None


@cache
def _literals() -> str:
    files = (ROOT / "src").rglob("*.py")
    trees = (ast.parse(file.read_text()) for file in files)
    return "\n".join(text for tree in trees for node in ast.walk(tree) if (text := _text(node)))


def messages() -> list[str]:
    """Return the quoted messages of first columns: sentences, not names of keys and files."""
    cells = [cell for cell in _ROW.findall(PAGE.read_text()) if not cell.startswith("---")]
    quoted = [quote for cell in cells for quote in _QUOTED.findall(cell)]
    return [quote for quote in quoted if len(re.findall(r"[a-z]{2,}", quote)) >= 3]


@pytest.mark.parametrize("message", messages())
def test_the_page_quotes_messages_of_the_code(message: str) -> None:
    parts = [re.escape(part) for part in re.split(r"\s*…\s*", message)]
    assert re.search(r"[^\n]*".join(parts), _literals()), message


def test_the_page_quotes_many_messages() -> None:
    assert len(messages()) > 40
