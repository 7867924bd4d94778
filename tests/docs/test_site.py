"""The documentation site builds strictly and loads nothing from other sites."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"(?:https?:)?//[^\"]+\""
    r"|<link\b[^>]*\brel=\"?(?:stylesheet|icon|preload|preconnect)\"?[^>]*\bhref=\"(?:https?:)?//[^\"]+\""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_every_page_of_docs_is_in_the_site(site: Path) -> None:
    sources = {p.relative_to(ROOT / "docs").with_suffix("") for p in (ROOT / "docs").rglob("*.md")}
    built = {page.relative_to(site).with_suffix("") for page in site.rglob("*.html")}
    assert sources - built == set()


def test_links_to_the_files_of_deploy_lead_to_copies_in_the_site(site: Path) -> None:
    assert 'href="deploy/compose.yaml"' in (site / "serve.html").read_text()
    assert (site / "deploy" / "compose.yaml").read_text().startswith("#")
    assert 'href="deploy/spark-submit.html"' in (site / "serve.html").read_text()


def test_the_generated_pages_have_every_option_and_every_call(site: Path) -> None:
    options = (site / "reference" / "options.html").read_text()
    assert "<code>--exact-offsets</code>" in options
    assert "KAFKEEP_BOOTSTRAP_SERVERS" in options
    calls = (site / "reference" / "rest.html").read_text()
    document = json.loads((site / "reference" / "openapi.json").read_text())
    for path, operations in document["paths"].items():
        assert all(f"{method.upper()} {path}" in calls for method in operations)


def test_no_page_loads_anything_from_another_site(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    assert {
        (page.name, loaded) for page in pages for loaded in _LOADED.findall(page.read_text())
    } == set()
    styles = "".join(sheet.read_text() for sheet in site.rglob("*.css"))
    assert re.findall(r"(?:@import\s*(?:url\()?|url\()[\"']?(?:https?:)?//", styles) == []


def test_images_are_small() -> None:
    images = list((ROOT / "docs" / "images").iterdir())
    assert images
    assert [image.name for image in images if image.stat().st_size > 250_000] == []
