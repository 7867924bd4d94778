"""Source files and modules that the documents name exist.

``test_architecture.py`` does the same for ARCHITECTURE.md, whose paths are relative to packages.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "kafkeep"
PAGES = sorted(
    [
        *(page for page in ROOT.glob("*.md") if page.name != "ARCHITECTURE.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "deploy").glob("*.md"),
    ]
)
_SUPERSEDED = re.compile(r"\bSuperseded by\b")
_FILE = re.compile(r"`([\w/]+\.py)`")
_FOLDER = re.compile(r"`((?:src|tests|docs|deploy|bench)/[\w/]*)`")
_MODULE = re.compile(r"python -m (kafkeep[\w.]*)|^(?:from|import) (kafkeep[\w.]*)", re.MULTILINE)


def _text(page: Path) -> str:
    """Return the text of a page; a superseded decision names files that are gone."""
    text = page.read_text()
    return "" if _SUPERSEDED.search(text) else text


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_folders_that_a_page_names_exist(page: Path) -> None:
    text = _text(page)
    named = {*_FILE.findall(text), *_FOLDER.findall(text)}
    roots = [SOURCE, ROOT, page.parent]
    assert {n for n in named if not any((root / n).exists() for root in roots)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_that_a_page_runs_or_imports_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        pytest.skip("a changelog names modules that were removed")
    named = {run or imported for run, imported in _MODULE.findall(_text(page))}
    assert {name for name in named if importlib.util.find_spec(name) is None} == set()
