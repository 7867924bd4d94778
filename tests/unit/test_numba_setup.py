from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kafkeep.numba_setup import read_varint, read_varlong, varlong_size, view_bytes, write_varlong

EDGES = [0, 1, -1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("value", EDGES)
def test_varlongs_come_back_and_never_read_past_the_end(value: int) -> None:
    out = np.zeros(10, dtype=np.uint8)
    size = write_varlong(out, 0, value)
    assert size == varlong_size(value)
    assert read_varlong(view_bytes(out), 0, size) == (value, size)
    assert read_varlong(view_bytes(out), 0, size - 1)[1] == -1


def test_varints_refuse_more_than_32_bits_and_more_than_5_bytes() -> None:
    out = np.zeros(10, dtype=np.uint8)
    size = write_varlong(out, 0, 2**31)
    assert read_varint(view_bytes(out), 0, size)[1] == -1
    padded = view_bytes(b"\x80\x80\x80\x80\x80\x00")
    assert read_varint(padded, 0, 6)[1] == -1
    assert read_varlong(view_bytes(b"\xff" * 12), 0, 12)[1] == -1


SHOW = """
import os, numba
before = dict(os.environ), numba.config.CACHE_DIR
from caller import kernel_that_calls
assert kernel_that_calls(1) == int(os.environ["EXPECTED"])
assert (dict(os.environ), numba.config.CACHE_DIR) == before
print(kernel_that_calls.stats.cache_path)
"""


def write_modules(folder: Path, *, factor: int, added: int) -> None:
    """Write a kernel, and in a file of its own what it calls."""
    callee = f"""
from kafkeep.numba_setup import inlined
FACTOR = {factor}
@inlined
def add(value):
    return value + {added}
"""
    caller = """
from callee import FACTOR, add
from kafkeep.numba_setup import kernel
@kernel
def kernel_that_calls(value):
    return add(value) * FACTOR
"""
    (folder / "callee.py").write_text(callee)
    if not (folder / "caller.py").exists():  # numba itself notices when this file changes
        (folder / "caller.py").write_text(caller)


def compile_in_a_process(folder: Path, expected: int, **environment: str) -> Path:
    """Call the kernel and return the folder that its compiled code is kept in."""
    inherited = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-B", "-c", SHOW],
        env={**inherited, "PYTHONPATH": path, "EXPECTED": str(expected), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def test_compiled_kernels_are_kept_where_the_user_says(tmp_path: Path) -> None:
    write_modules(tmp_path, factor=1, added=1)
    ours, numbas = tmp_path / "ours", tmp_path / "numba's"
    kept = compile_in_a_process(tmp_path, 2, KAFKEEP_CACHE=str(ours))
    assert kept.is_relative_to(ours) and list(kept.glob("*.nbi"))
    kept = compile_in_a_process(tmp_path, 2, KAFKEEP_CACHE=str(ours), NUMBA_CACHE_DIR=str(numbas))
    assert kept.is_relative_to(numbas) and list(kept.glob("*.nbi"))


def test_a_kernel_is_compiled_anew_when_what_it_calls_changes(tmp_path: Path) -> None:
    cache = {"KAFKEEP_CACHE": str(tmp_path / "cache")}
    write_modules(tmp_path, factor=1, added=1)
    first = compile_in_a_process(tmp_path, 2, **cache)
    assert compile_in_a_process(tmp_path, 2, **cache) == first
    write_modules(tmp_path, factor=1, added=2)
    assert compile_in_a_process(tmp_path, 3, **cache) != first
    write_modules(tmp_path, factor=5, added=2)
    compile_in_a_process(tmp_path, 15, **cache)
