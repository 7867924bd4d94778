"""Links in the documents resolve. The site's strict build finds pages that nothing leads to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"\[[^\]\n]+\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def _slug(heading: str) -> str:
    bare = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return bare.replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_inside_the_project_resolve(page: Path) -> None:
    broken = []
    for target in _LINK.findall(_FENCE.sub("", page.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        if not file.exists():
            broken.append(target)
        elif anchor and file.suffix == ".md":
            slugs = {_slug(heading) for heading in _HEADING.findall(file.read_text())}
            if anchor not in slugs:
                broken.append(target)
    assert not broken
