"""The tree in the docstring of errors.py and the table of exit codes match the error classes."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from kafkeep import errors
from kafkeep.errors import KafkeepError

ROOT = Path(__file__).parents[2]
_LINE = re.compile(r"^ {4}([│├└─ ]*)(\w+) +(\d+) {2,}", re.MULTILINE)
CLASSES = {
    name: kind
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, KafkeepError)
}


def _drawn() -> list[tuple[int, str, int]]:
    """Return depth, name and exit code of each line of the tree."""
    found = _LINE.findall(errors.__doc__ or "")
    return [(len(stem) // 4, name, int(code)) for stem, name, code in found]


def test_the_tree_has_every_class_with_its_exit_code() -> None:
    assert {name: code for _, name, code in _drawn()} == {
        name: kind.exit_code for name, kind in CLASSES.items()
    }


def test_the_tree_shows_the_base_class_of_each_class() -> None:
    parents: list[str] = []
    for depth, name, _ in _drawn():
        parents[depth:] = [name]
        if depth:
            assert CLASSES[name].__bases__ == (CLASSES[parents[depth - 1]],)


def test_the_page_lists_every_exit_code_and_no_other() -> None:
    page = (ROOT / "docs" / "exit-codes.md").read_text().split("## ")[0]
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert listed == {0} | {kind.exit_code for kind in CLASSES.values()}


CATCH_EVERYTHING = {
    "cli",  # becomes the exit code
    "connect",  # becomes a REST answer, or is logged by work that must go on
    "kafka",  # raised again after cached metadata is dropped
    "maintenance",  # becomes a check of doctor; the clean-up of a drill
    "restore",  # progress, which is optional
    "spark",  # becomes the result row of a task
    "store",  # raised again after an upload is aborted
    "ui",  # becomes an error page, or a sentence beside what could be read
}


def test_only_the_packages_named_in_the_docstring_catch_the_base_class() -> None:
    source = ROOT / "src" / "kafkeep"
    catching = {
        path.relative_to(source).parts[0]
        for path in source.rglob("*.py")
        if re.search(r"^\s+except .*\bKafkeepError\b", path.read_text(), re.MULTILINE)
    }
    assert catching <= CATCH_EVERYTHING
