"""A public class name means one thing in the whole project."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import kafkeep

SOURCE = Path(kafkeep.__file__).parent


def public_classes() -> dict[str, list[str]]:
    """Return the modules that define each public class, by its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(file.relative_to(SOURCE)))
    return found


def test_every_public_class_name_exists_once() -> None:
    assert {name: files for name, files in public_classes().items() if len(files) > 1} == {}
