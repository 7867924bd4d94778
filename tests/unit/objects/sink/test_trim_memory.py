"""Memory between things that stay is given back, in a process with a heap of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from kafkeep.spark.jvm import WORKER_MEMORY

PIECES = """
from kafkeep.objects.sink.open_file import MemoryTrimmer, resident_bytes
MB = 1 << 20
few, much = MemoryTrimmer(more_bytes=32 * MB), MemoryTrimmer(more_bytes=1024 * MB)
pieces = [bytes(1) * 60_000 for _ in range(4_000)]  # 240 MB
full = resident_bytes()
pieces = pieces[::100]
assert resident_bytes() > full - 50 * MB, "nothing is kept: this test shows nothing"
much.save()
assert resident_bytes() > full - 50 * MB, "given back though it was not much"
few.save()
assert resident_bytes() < full - 150 * MB, (full // MB, resident_bytes() // MB)
assert all(piece == bytes(60_000) for piece in pieces)
"""


def test_free_memory_goes_back_when_a_process_holds_much() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PIECES],
        env={**os.environ, **WORKER_MEMORY},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
