from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

import kafkeep
from kafkeep.spark.internals import workers

SOURCE = Path(kafkeep.__file__).parent
PRIVATE = {"_accumulatorServer", "_active_spark_context", "_explain_string", "_instantiatedSession"}
PRIVATE |= {"_gateway", "_jconf", "_jrdd", "_jsc", "_jsparkSession", "_jvm"}
UNDOCUMENTED = re.compile(
    r"PythonGatewayServer|PYSPARK_GATEWAY|_PYSPARK_DRIVER"
    r"|^pyspark\.(daemon|worker|java_gateway|sql\.connect)\b"
)


def test_no_package_but_one_uses_private_names_of_pyspark() -> None:
    users = {
        path.relative_to(SOURCE).parent.as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if is_private(node)
    }
    assert users == {"spark/internals"}


def is_private(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in PRIVATE | {"__func__"} and not _is_self(node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value in PRIVATE or UNDOCUMENTED.search(node.value) is not None
    if isinstance(node, ast.ImportFrom):
        return UNDOCUMENTED.search(node.module or "") is not None
    return False


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def test_the_daemon_runs_as_a_module_when_pyspark_lacks_its_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[tuple[str, str]] = []
    monkeypatch.delattr("pyspark.daemon.manager")
    monkeypatch.setattr(runpy, "run_module", lambda name, run_name: ran.append((name, run_name)))
    workers.run_daemon()
    assert ran == [("pyspark.daemon", "__main__")]
