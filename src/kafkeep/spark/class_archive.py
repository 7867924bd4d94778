"""The class-data archive of Spark's driver: the JVM maps 15,000 classes instead of loading them.

It is built once, in the background, by a process of its own, and halves the time to the first job.
The user's cache holds one archive for each pair of Java and Spark. Without it everything works,
slower.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kafkeep.options.spark import is_switched_on

CACHE_VARIABLE = "KAFKEEP_CACHE"
SWITCH_VARIABLE = "KAFKEEP_CLASS_ARCHIVE"
CORE_ONLY = "--core-only"
_BUILDER = "kafkeep.spark.build_class_archive"
_STALE_LOCK_SECONDS = 600


def cache_folder() -> Path:
    """Return the folder for things that can be made again."""
    return Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "kafkeep")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Where the archive for one runtime lies, whether it is there or not."""

    path: Path
    core_only: bool = False
    """Whether the class path is that of Spark's core."""

    @classmethod
    def for_runtime(
        cls,
        java: str,
        home: Path,
        jars: Sequence[str],
        flags: Sequence[str],
        *,
        core_only: bool = False,
    ) -> ClassArchive:
        """Name the archive by all that makes a JVM refuse it: Java, jars, class path, flags."""
        binary = Path(java).resolve()
        release = binary.parent.parent / "release"
        parts = [str(binary), str(binary.stat().st_mtime_ns), *flags, *jars]
        parts += [release.read_text()] if release.is_file() else []
        parts += [str((home / "jars").stat().st_mtime_ns)]
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        return cls(cache_folder() / f"spark-{digest}.jsa", core_only)

    def jvm_flags(self, write_to: Path | None = None) -> list[str]:
        """Return the flags that write the archive to ``write_to``, else those that use it."""
        if write_to is not None:
            return [f"-XX:ArchiveClassesAtExit={write_to}"]
        return [f"-XX:SharedArchiveFile={self.path}"] if is_on() and self.path.is_file() else []

    def build_in_background(self) -> None:
        """Start building unless it exists or somebody is at it; never raises, never waits."""
        if not is_on() or self.path.is_file() or not self._take_lock():
            return
        try:
            subprocess.Popen(
                [sys.executable, "-m", _BUILDER, str(self.path), *self._builder_flags()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd=self.path.parent,
            )
        except OSError:
            self.unlock()

    def _builder_flags(self) -> list[str]:
        return [CORE_ONLY] if self.core_only else []

    def unlock(self) -> None:
        """Let others build."""
        self._lock.unlink(missing_ok=True)

    @property
    def _lock(self) -> Path:
        return self.path.with_suffix(".lock")

    def _take_lock(self) -> bool:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self._lock.is_file() and _age_seconds(self._lock) > _STALE_LOCK_SECONDS:
                self.unlock()
            self._lock.touch(exist_ok=False)
        except OSError:  # somebody is at it, or the cache cannot be written: go without
            return False
        return True


def is_on() -> bool:
    """Whether class archives are wanted: KAFKEEP_CLASS_ARCHIVE=off turns them off."""
    return is_switched_on(os.environ.get(SWITCH_VARIABLE))


def _age_seconds(path: Path) -> float:
    return time.time() - path.stat().st_mtime
