"""ARCHITECTURE.md is true to the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "kafkeep"
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
TREE = TEXT.split("## The tree")[1].split("```")[1]
PACKAGES = sorted(p.parent.name for p in SOURCE.glob("*/__init__.py"))
_FILE = re.compile(r"[a-z_0-9]+\.py")


def _named_in_tree() -> list[Path]:
    """Return every path the tree names: files under the folder whose line they stand under."""
    found: list[Path] = []
    base, folder = ROOT, ROOT
    for line in TREE.splitlines():
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        first = line.split()[0]
        if indent == 0:
            base = folder = ROOT / first
        elif indent == 2:
            folder = base / first if first.endswith("/") else base
        if first.endswith("/"):
            found.append(folder)
        found += [folder / name for name in _FILE.findall(line)]
    return found


@pytest.mark.parametrize("path", _named_in_tree(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_path_in_the_tree_exists(path: Path) -> None:
    assert path.exists()


@pytest.mark.parametrize("package", PACKAGES)
def test_the_tree_names_every_package(package: str) -> None:
    assert re.search(rf"^  {package}/", TREE, re.MULTILINE)


def test_every_module_at_the_top_is_in_the_tree() -> None:
    modules = {p.name for p in SOURCE.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert {m for m in modules if not re.search(rf"^  {m}", TREE, re.MULTILINE)} == set()


def test_paths_in_the_text_exist() -> None:
    rest = TEXT.replace(TREE, "")
    named = re.findall(r"`([a-z_]+/[a-z_]+\.py)`", rest)
    assert named
    assert [name for name in named if not (SOURCE / name).exists()] == []


def test_it_stays_about_a_page_long() -> None:
    assert len(TEXT.splitlines()) <= 130
