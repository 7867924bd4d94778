"""Kernels that run as Python return what they return when they are compiled."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import random, sys
from kafkeep.archive.entry import OffsetRange
from kafkeep.errors import DamagedError
from kafkeep.kafka.batch.decode import iter_decode
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import UnsupportedBatchError, check_crcs, scan_batches
from kafkeep.kernels import plain_kernels

chances = random.Random(7)
EDGES = [0, 1, -1, 63, 64, -64, 2**31, -(2**31), 2**62, -(2**62)]

def some_bytes():
    return chances.choice([None, b"", b"x", chances.randbytes(chances.randrange(300))])

def batch(base):
    times = [chances.choice(EDGES) for _ in range(chances.randrange(1, 6))]
    return build_batch([
        Record(base + n, time, some_bytes(), some_bytes(),
               [(f"h{n}".encode(), some_bytes()) for n in range(chances.randrange(3))])
        for n, time in enumerate(times)
    ])

def decoded(data):
    try:
        batches = scan_batches(data)
        check_crcs(batches)
    except (DamagedError, UnsupportedBatchError) as error:
        return str(error)
    return None

def records(data):
    try:
        parts = iter_decode(scan_batches(data), OffsetRange(1, 2**40))
        return [part.to_pylist() for part in parts]
    except (DamagedError, UnsupportedBatchError) as error:
        return str(error)

with plain_kernels():
    whole = [b"".join(batch(100 * n) for n in range(3)) for _ in range(20)]
    damaged = []
    for data in whole * 15:
        changed = bytearray(data)
        changed[chances.randrange(len(data))] = chances.randrange(256)
        damaged.append(bytes(changed))
    inputs = whole + damaged + [data[: chances.randrange(len(data))] for data in whole]
    plain = [(decoded(data), records(data)) for data in inputs]
    assert "numba" not in sys.modules
compiled = [(decoded(data), records(data)) for data in inputs]
assert "numba" in sys.modules
for data, one, other in zip(inputs, plain, compiled, strict=True):
    assert one == other, (data.hex(), one, other)
problems = {text for pair in plain for text in pair if isinstance(text, str)}
tables = [part for _, parts in plain if isinstance(parts, list) for part in parts]
print(len(inputs), sum(map(len, tables)), len(problems))
"""


def test_batches_intact_and_damaged_are_read_alike() -> None:
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    inputs, records, problems = map(int, done.stdout.split())
    assert inputs == 340 and records > 1000 and problems > 50
