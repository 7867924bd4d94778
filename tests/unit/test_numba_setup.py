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


def test_compiled_kernels_are_kept_where_the_user_says(tmp_path: Path) -> None:
    code = "import kafkeep.numba_setup, numba; print(numba.config.CACHE_DIR)"
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "KAFKEEP_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(answer.stdout.strip()).parent == tmp_path
