"""Kernels load their compiler when one is called, and work the same before and after."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EARLY = """
from kafkeep.numba_setup import inlined, kernel

@inlined
def double(value):
    return 2 * value

@kernel
def quadruple(value):
    return double(double(value))
"""
LATE = """
from early import double, quadruple
from kafkeep.numba_setup import kernel

@kernel
def octuple(value):
    return double(quadruple(value))
"""


def run(code: str, folder: Path) -> str:
    (folder / "early.py").write_text(EARLY)
    (folder / "late.py").write_text(LATE)
    begin = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["kafkeep.backup.run", "kafkeep.restore.run"])
def test_the_driver_of_a_run_loads_no_compiler_and_nothing_of_sinks(
    module: str, tmp_path: Path
) -> None:
    unwanted = ("numba", "llvmlite", "pandas", "kafkeep.records.json", "kafkeep.records.transforms")
    code = f"import {module}; print([m for m in {unwanted} if m in sys.modules])"
    assert run(code, tmp_path) == "[]"


def test_a_module_that_is_loaded_after_the_first_call_can_use_those_before(tmp_path: Path) -> None:
    code = """
from early import double, quadruple
held = quadruple
print(quadruple(1))
import late
print(late.octuple(1), held(2), double(3))
"""
    assert run(code, tmp_path).split() == ["4", "8", "8", "6"]


def test_threads_that_call_kernels_first_at_the_same_time_all_get_an_answer(tmp_path: Path) -> None:
    code = """
import threading
from concurrent.futures import ThreadPoolExecutor
import early, late
start = threading.Barrier(8)

def call(number):
    start.wait()
    return (late.octuple if number % 2 else early.quadruple)(number)

sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(8) as pool:
    print(list(pool.map(call, range(8))))
"""
    assert run(code, tmp_path) == str([n * (8 if n % 2 else 4) for n in range(8)])
