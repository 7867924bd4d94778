"""Compiled kernels are found by what they compute, wherever the package lies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import kafkeep

RUN = """
import json
from kafkeep.kafka.batch.layout import _TABLES, _crc
from kafkeep.numba_setup import view_bytes
_crc(view_bytes(b"key"), 0, 3, _TABLES)
stats = _crc.stats
counts = [sum(counter.values()) for counter in (stats.cache_hits, stats.cache_misses)]
print(json.dumps([str(stats.cache_path), *counts]))
"""

ONLY_CACHED = """
from kafkeep.kernel_cache import NotCompiledError, cached_kernels_only
try:
    with cached_kernels_only():
        _crc(view_bytes(b"key"), 0, 3, _TABLES)
except NotCompiledError:
    assert not _crc.signatures
"""


def run_from(
    packages: Path, home: Path, before: str = "", **environment: str
) -> tuple[Path, int, int]:
    """Call a kernel of the package in this folder; return its cache, and its hits and misses."""
    program = RUN.replace("\n_crc(", f"\n{before}\n_crc(")
    inherited = {k: v for k, v in os.environ.items() if not k.endswith(("_CACHE", "_CACHE_DIR"))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**inherited, "PYTHONPATH": str(packages), "HOME": str(home), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    folder, hits, misses = json.loads(done.stdout)
    return Path(folder), hits, misses


def copy_package(target: Path, source: Path | None = None) -> Path:
    """Copy kafkeep without its cache, or a copy of it with everything."""
    if source is not None:
        shutil.copytree(source, target)
    else:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(kafkeep.__file__).parent, target / "kafkeep", ignore=ignored)
    return target


def test_a_copy_of_the_package_in_another_folder_compiles_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    built = copy_package(tmp_path / "built")
    folder, hits, misses = run_from(built, home)
    assert folder.is_relative_to(built) and (hits, misses) == (0, 1)
    shipped = copy_package(tmp_path / "shipped", built)
    shutil.rmtree(built)
    folder, hits, misses = run_from(shipped, home)
    assert folder.is_relative_to(shipped) and (hits, misses) == (1, 0)


def test_a_package_that_cannot_be_written_uses_the_cache_of_the_user(tmp_path: Path) -> None:
    home = tmp_path / "home"
    packages = copy_package(tmp_path / "packages")
    (packages / "kafkeep" / "__pycache__").write_text("no folder can be made here")
    for expected in ((0, 1), (1, 0)):
        folder, *counts = run_from(packages, home)
        assert folder.is_relative_to(home) and tuple(counts) == expected


def test_kernels_in_the_package_are_found_also_when_the_user_has_a_cache(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".cache" / "kafkeep" / "numba").mkdir(parents=True)
    packages = copy_package(tmp_path / "packages")
    run_from(packages, home)
    assert run_from(packages, home)[1:] == (1, 0)


def test_a_cache_that_cannot_be_written_stops_no_kernel(tmp_path: Path) -> None:
    (tmp_path / "numba").write_text("no folder can be made here")
    packages = Path(kafkeep.__file__).parents[1]
    folder, hits, misses = run_from(packages, tmp_path, KAFKEEP_CACHE=str(tmp_path))
    assert not folder.is_relative_to(tmp_path) and (hits, misses) == (0, 1)


def test_a_kernel_is_compiled_after_a_preload_that_found_none(tmp_path: Path) -> None:
    built, home = copy_package(tmp_path / "built"), tmp_path / "home"
    _, hits, misses = run_from(built, home, ONLY_CACHED)
    assert hits == 0 and misses >= 1
    _, hits, misses = run_from(built, home, ONLY_CACHED)
    assert (hits, misses) == (1, 0), "the preload has loaded it"
