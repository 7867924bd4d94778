from __future__ import annotations

import ast
import re
import runpy
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafkeep
from kafkeep.spark.internals import classic, workers

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


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Put the handler of Ctrl-C back."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_ctrl_c_interrupts_also_when_the_handler_of_pyspark_fails() -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("reentrant call")

    fail.__qualname__ = "SparkContext._do_init.<locals>.signal_handler"
    signal.signal(signal.SIGINT, fail)
    classic.let_interrupts_through()
    ours = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    classic.let_interrupts_through()
    assert signal.getsignal(signal.SIGINT) is ours


@pytest.mark.usefixtures("interrupts")
def test_a_handler_of_ctrl_c_that_is_not_of_pyspark_stays() -> None:
    def theirs(*_: object) -> None: ...

    signal.signal(signal.SIGINT, theirs)
    classic.let_interrupts_through()
    assert signal.getsignal(signal.SIGINT) is theirs
