"""What importing kafkeep does to the process that imports it: nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from itertools import chain

import pytest

from kafkeep import preload
from kafkeep.options.backup import BackupOptions
from kafkeep.options.sink.sink import SinkSpec

IMPORT_ALL = """
import logging, os, pkgutil, sys
from importlib import import_module
import kafkeep

def state():
    watched = ("kafka", "py4j", "botocore", "numba")
    levels = {name: logging.getLogger(name).level for name in watched}
    return dict(os.environ), sys.getswitchinterval(), levels

before = state()
names = [found.name for found in pkgutil.walk_packages(kafkeep.__path__, "kafkeep.")]
for name in names:
    if not name.endswith("__main__"):
        import_module(name)
assert state() == before, [pair for pair in zip(before, state()) if pair[0] != pair[1]]
from kafkeep import failpoint
assert not failpoint._arms
print(len(names))
"""


def test_no_import_changes_the_environment_the_switch_interval_or_a_logger() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL],
        env={**os.environ, "KAFKEEP_FAILPOINT": "task.start:exit"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300


def of_sink(format: str, **more: str) -> tuple[str, ...]:
    spec = SinkSpec({"format.class": format, **more})
    return preload.for_backup(BackupOptions(topics=("t",), sink=spec))


SINKS = {one: of_sink(one) for one in ("json", "avro", "parquet", "bytes")}
ROWS = preload.for_restore(reads_rows=True)
TYPED = of_sink("parquet", **{"value.converter": "JsonConverter"})


@pytest.mark.parametrize(
    "name",
    sorted(
        {*preload.SERVICE, *preload.DRILL, *preload.DEMO, *ROWS, *TYPED, *chain(*SINKS.values())}
    ),
)
def test_what_workers_preload_exists(name: str) -> None:
    module, _, function = name.partition(":")
    loaded = import_module(module)
    assert not function or callable(getattr(loaded, function))


def test_workers_of_a_sink_preload_the_kernels_of_its_format_alone() -> None:
    prefix = "kafkeep.objects.compile_kernels:compile_"
    assert SINKS["bytes"] == (*preload.BACKUP, "kafkeep.objects.sink.writer")
    for format in ("json", "avro", "parquet"):
        assert SINKS[format] == (*SINKS["bytes"], f"{prefix}{format}_kernels")
    assert (*SINKS["parquet"], f"{prefix}typed_kernels") == TYPED


def test_the_start_of_a_service_or_a_session_compiles_the_kernels_of_segments_alone() -> None:
    for workers in (preload.SERVICE, preload.RESIDENT):
        compiled = {name.partition(":")[2] for name in workers if ":compile_" in name}
        assert compiled == {"compile_backup_kernels", "compile_kernels"}
