"""The machine we run on: Java, Spark, room for temporary files."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator

from kafkeep.care.doctor.check import passed, warned
from kafkeep.check import Check
from kafkeep.config.java import java_version, require_java
from kafkeep.config.spark import SparkOptions
from kafkeep.config.units import format_size
from kafkeep.spark.door import SparkDoor

LITTLE_ROOM_BYTES = 1 << 30


def check_java() -> Iterator[Check]:
    """Say which Java is used."""
    java = require_java()
    yield passed("java", f"{java_version(java)} at {java}")


def check_spark(options: SparkOptions) -> Iterator[Check]:
    """Start Spark, run a job, and stop it."""
    began = time.monotonic()
    with SparkDoor(options) as door:
        spark = door.session()
        took = time.monotonic() - began
        cores = "1 task" if spark.cores == 1 else f"{spark.cores} tasks"
        yield passed("spark", f"ran its first job after {took:.1f} s; {cores} at a time")


def check_disk(folder: str | None = None) -> Iterator[Check]:
    """Look for room where temporary files go."""
    folder = folder or tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    what = f"{format_size(free)} free in {folder}"
    if free < LITTLE_ROOM_BYTES:
        yield warned("disk", what, "Free some, or set TMPDIR to a folder with more room.")
    else:
        yield passed("disk", what)
