"""The daemon that Spark forks Python workers from: ``python -m kafkeep.spark.worker_daemon``.

It runs on this machine for a local master, and beside each executor of a cluster. A worker would
otherwise import pyarrow, numba and the task's modules by itself, which takes about a second. The
daemon imports them once, and its workers inherit them. What it imports must not open connections or
start threads: neither survives a fork.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder

from kafkeep.errors import KafkeepError
from kafkeep.failpoint import arm_from_environment
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import wire_for
from kafkeep.options.kafka import Locations
from kafkeep.spark.internals.workers import WORKER_MODULE, run_daemon
from kafkeep.spark.jvm import PRELOAD_VARIABLE
from kafkeep.store.open import open_store

_MISSING_KEY = "_kafkeep/nothing"


def open_clients(locations: Locations) -> None:
    """Send Kafka and the store a cheap request, so that a worker's first task finds open clients.

    Runs in a task; raises what the clients raise.
    """
    Admin(wire_for(locations.kafka)).cluster_id()
    with suppress(KafkeepError):  # there is no such object
        open_store(locations.archive, locations.storage).head(_MISSING_KEY)


def leave_out_zips(path: list[str]) -> list[str]:
    """Return an import path without the zips of a pyspark that is installed as a folder too.

    Spark puts its zips first. Every process compiles what is in them anew, which takes a second,
    and each new worker reads their directories again, which takes half a second.
    """
    folders = [entry for entry in path if not entry.endswith(".zip")]
    found = PathFinder.find_spec("pyspark", folders)
    if found is None or not found.submodule_search_locations:
        return path
    home = os.path.join(os.path.realpath(found.submodule_search_locations[0]), "")
    return [entry for entry in path if not os.path.realpath(entry).startswith(home)]


_loaded: set[str] = set()
"""Names that this process has loaded, or the daemon before it forked this one."""


def preload(name: str) -> None:
    """Import ``module``, or import it and call ``module:function``, once in a process.

    A failure is not reported here: the task that needs the module meets it and reports it.
    """
    if name in _loaded:
        return
    _loaded.add(name)
    module, _, function = name.partition(":")
    with suppress(Exception):  # also when the variable is empty
        loaded = import_module(module)
        if function:
            getattr(loaded, function)()


def load(names: Iterable[str]) -> None:
    """Import what every worker needs, and preload ``names``."""
    gc.disable()  # nothing that is imported can be freed
    for name in ("pyarrow", WORKER_MODULE, *names):
        preload(name)
    # A worker collects garbage after every task. Walking what was imported here took 0.1 s each
    # time. Frozen objects are skipped, and their pages stay shared between the workers.
    gc.freeze()
    gc.enable()


def serve() -> None:
    """Fork workers as Spark requests them, until Spark ends."""
    arm_from_environment()  # after the kernels were compiled: that passes failpoints too
    run_daemon()


def run() -> None:
    """Preload, then fork workers as Spark requests them, until Spark ends."""
    sys.path[:] = leave_out_zips(sys.path)
    sys.path_importer_cache.clear()
    sys.modules.pop("org", None)  # Python's copy looks for Jython's, and finds the one of a jar
    load(os.environ.get(PRELOAD_VARIABLE, "").split(","))
    serve()


if __name__ == "__main__":
    import_module("kafkeep.spark.worker_daemon").run()  # whose ``_loaded`` tasks find
