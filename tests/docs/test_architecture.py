"""ARCHITECTURE.md matches the source tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "kafkeep"
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
PACKAGES = sorted(p.parent.name for p in SOURCE.glob("*/__init__.py"))
SUBPACKAGES = sorted(p.parent.relative_to(SOURCE) for p in SOURCE.glob("*/*/__init__.py"))
NAMED = sorted(set(re.findall(r"`([a-z_]+(?:/[a-z_0-9]+)*(?:/|\.py))`", TEXT)))


@pytest.mark.parametrize("name", NAMED)
def test_a_path_on_the_page_exists(name: str) -> None:
    roots = [SOURCE, ROOT, *(SOURCE / package for package in PACKAGES)]
    assert any((root / name).exists() for root in roots)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_row(package: str) -> None:
    assert re.search(rf"^\| `{package}/` \|", TEXT, re.MULTILINE)


@pytest.mark.parametrize("package", SUBPACKAGES, ids=str)
def test_every_subpackage_is_in_the_row_of_its_parent(package: Path) -> None:
    row = re.search(rf"^\| `{package.parts[0]}/` \|.*$", TEXT, re.MULTILINE)
    assert row is not None
    assert f"`{package.name}/`" in row[0]


def test_every_top_level_module_is_on_the_page() -> None:
    modules = {p.name for p in SOURCE.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert {name for name in modules if f"`{name}`" not in TEXT} == set()
