"""A module that calls itself pure has no client, no store and no clock, and planners are pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafkeep

SOURCE = Path(kafkeep.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
TREES = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in MODULES}
_PURE = re.compile(r"(\. Pure|[;,] pure)\.?(\n|$)")
PURE = [name for name, tree in TREES.items() if _PURE.search(ast.get_docstring(tree) or "")]
PLANNERS = [name for name in TREES if name.endswith("/plan.py")]
NOT_A_PLANNER = {"dev/plan.py", "records/avro/plan.py"}
"""One chooses free ports; the other matches two schemas."""
IMPURE = {
    ("kafkeep.archive.object_store", "ObjectStore"),
    ("kafkeep.clock", "now_ms"),
    ("kafkeep.kafka.admin.admin", "Admin"),
    ("kafkeep.kafka.admin.cluster", "Cluster"),
    ("kafkeep.kafka.client.wire", "Wire"),
    ("kafkeep.registry.client", "open_registry"),
    ("kafkeep.store.open", "open_store"),
}


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each name that a module imports, with the module it comes from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, name.name) for name in node.names)


def test_the_modules_that_are_searched_exist() -> None:
    assert len(PURE) > 100
    for module, name in IMPURE:
        path = module.removeprefix("kafkeep.").replace(".", "/") + ".py"
        assert f" {name}" in (SOURCE / path).read_text()


@pytest.mark.parametrize("name", PURE)
def test_a_pure_module_imports_no_client_no_store_and_no_clock(name: str) -> None:
    assert set(imported(TREES[name])) & IMPURE == set()


@pytest.mark.parametrize("name", sorted({*PLANNERS} - NOT_A_PLANNER))
def test_a_planner_imports_no_client_no_store_and_no_clock(name: str) -> None:
    assert set(imported(TREES[name])) & IMPURE == set()
