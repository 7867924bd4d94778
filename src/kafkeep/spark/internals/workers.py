"""The daemon that Spark forks Python workers from."""

from __future__ import annotations

import runpy
from importlib import import_module

WORKER_MODULE = "pyspark.worker"
"""What a worker imports first; it is preloaded, if it is there."""
_DAEMON_MODULE = "pyspark.daemon"


def run_daemon() -> None:
    """Fork workers as Spark requests them, until Spark ends; the process is the daemon from now on.

    Without the daemon's function, its module is run as the JVM itself would run it.
    """
    run = getattr(import_module(_DAEMON_MODULE), "manager", None)
    if run is not None:
        run()
    else:
        runpy.run_module(_DAEMON_MODULE, run_name="__main__")
