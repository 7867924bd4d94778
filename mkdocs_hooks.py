"""Hooks of the documentation site: decision records, generated pages, and the files of deploy/."""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs_reference import format_options, format_rest, rest_document

ROOT = Path(__file__).parent
_LINK = re.compile(r"(\]\()([^)\s:#]+)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the section of the decision records."""
    records = sorted((ROOT / "docs" / "adr").glob("*.md"))
    section = next(item for item in config.nav or [] if "Decisions" in item)
    section["Decisions"] = [f"adr/{path.name}" for path in records]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add generated pages, and deploy/: its pages are rendered, other files are downloads."""
    generated = {
        "reference/options.md": format_options(),
        "reference/rest.md": format_rest(),
        "reference/openapi.json": json.dumps(rest_document(), indent=2),
    }
    for name, content in generated.items():
        files.append(File.generated(config, name, content=content))
    for path in sorted((ROOT / "deploy").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to the repository's deploy/ at its place in the site."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def within_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if not target.startswith("deploy/"):
            return link[0]
        start = posixpath.dirname(page.file.src_uri) or "."
        return link[1] + posixpath.relpath(target, start)

    return _LINK.sub(within_site, markdown)
