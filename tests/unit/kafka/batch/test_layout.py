from __future__ import annotations

import random

import numpy as np
import pytest

from kafkeep.kafka.batch import layout
from kafkeep.numba_setup import view_bytes


def test_crc32c_of_the_known_word() -> None:
    assert layout.crc32c(b"123456789") == 0xE3069283
    assert layout.crc32c(bytearray(b"123456789")) == 0xE3069283


@pytest.mark.parametrize("threshold", [0, 1 << 30], ids=["hardware", "table"])
def test_both_ways_agree_for_every_small_size(
    monkeypatch: pytest.MonkeyPatch, threshold: int
) -> None:
    monkeypatch.setattr(layout, "LARGE_BYTES", threshold)
    data = random.Random(1).randbytes(3000)
    ends = np.arange(100, 400, dtype=np.int64)
    starts = np.arange(300, dtype=np.int64) % 97
    wanted = np.array([layout.crc32c(data[i:j]) for i, j in zip(starts, ends, strict=True)])
    assert layout.find_bad_crc(view_bytes(data), starts, ends, wanted) is None
    wanted[123] ^= 1
    assert layout.find_bad_crc(view_bytes(data), starts, ends, wanted) == 123
