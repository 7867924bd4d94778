"""Build the class-data archive: ``python -m kafkeep.spark.build_class_archive <path>``.

With ``--core-only`` it is one for the class path of Spark's core.

Runs the first job of a session once, in a JVM that writes its classes to the archive when it ends.
A rename puts the archive in place, so that nobody ever sees half of it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kafkeep.options.spark import SparkOptions
from kafkeep.spark.class_archive import CORE_ONLY, ClassArchive
from kafkeep.spark.jvm import launch_jvm
from kafkeep.spark.session import start_session, stop_session
from kafkeep.spark.tasks import TaskRunner

_DUMP_SECONDS = 180.0


def build(path: Path, *, core_only: bool = False) -> bool:
    """Write the archive to ``path``; False when the JVM did not make one."""
    archive = ClassArchive(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    try:
        options = SparkOptions(app_name="kafkeep-class-archive", sql=not core_only)
        jvm = launch_jvm(options, write_to=part)
        jvm.archive, jvm.stop_seconds = None, _DUMP_SECONDS
        session = start_session(options, jvm=jvm)
        TaskRunner(session).run_first_job()
        stop_session(session)
        if not part.is_file() or part.stat().st_size == 0:
            return False
        part.replace(path)
        return True
    finally:
        part.unlink(missing_ok=True)
        archive.unlock()


if __name__ == "__main__":
    os.nice(19)
    sys.exit(0 if build(Path(sys.argv[1]), core_only=CORE_ONLY in sys.argv[2:]) else 1)
