"""Published files name no path, host or package index of a developer's machine."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
BUILD = [ROOT / name for name in ("Makefile", "pyproject.toml", "constraints.txt")]
CODE = sorted((ROOT / "src").rglob("*.py"))
KNOWN_HOSTS = {"keepachangelog.com", "semver.org", "sdkman.io", "kafka.apache.org"}
OTHERS = {
    "aiven.io",
    "docs.confluent.io",
    "docs.kannika.io",
    "docs.lenses.io",
    "github.com",
    "osodevops.github.io",
}
"""Hosts that only the comparison with other programs links to."""
_MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:home|root|Users|work|workspace|mnt)/\w+")
_URL = re.compile(r"\bhttps?://[^\s)\"'`>|]+")


def _is_example(host: str) -> bool:
    local = host in ("localhost", "127.0.0.1", "host", "s3") or host.endswith(".amazonaws.com")
    return local or host.endswith((".example", ".example.com", ".example.org"))


@pytest.mark.parametrize(
    "file", sorted([*PAGES, *BUILD, *CODE]), ids=lambda p: str(p.relative_to(ROOT))
)
def test_no_file_names_a_path_of_one_machine(file: Path) -> None:
    assert _MACHINE_PATH.findall(file.read_text()) == []


@pytest.mark.parametrize("file", sorted(PAGES), ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_link_only_to_well_known_hosts(file: Path) -> None:
    hosts = {urlsplit(url).hostname or "" for url in _URL.findall(file.read_text())}
    known = KNOWN_HOSTS | OTHERS if file.name == "comparison.md" else KNOWN_HOSTS
    assert {h for h in hosts if h and not _is_example(h)} - known == set()


@pytest.mark.parametrize("file", BUILD, ids=lambda p: p.name)
def test_build_files_name_no_address(file: Path) -> None:
    assert "://" not in file.read_text()
    assert "index-url" not in file.read_text()
