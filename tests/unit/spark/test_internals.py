from __future__ import annotations

import ast
from pathlib import Path

import kafkeep

SOURCE = Path(kafkeep.__file__).parent
PRIVATE = {"_accumulatorServer", "_active_spark_context", "_explain_string", "_instantiatedSession"}
PRIVATE |= {"_gateway", "_jconf", "_jrdd", "_jsc", "_jsparkSession", "_jvm"}


def test_no_module_but_one_uses_private_names_of_pyspark() -> None:
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr in PRIVATE and not _is_self(node.value))
        or (isinstance(node, ast.Constant) and node.value in PRIVATE)
        or (isinstance(node, ast.ImportFrom) and node.module == "pyspark.java_gateway")
    }
    assert users == {"spark/internals.py"}


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
