"""The process that Spark forks local Python workers from, with the imports done beforehand.

Each worker would otherwise import pyarrow, numba and the task's modules by itself, for about a
second. What is imported here must not open connections or start threads: neither survives a fork.

The clients a worker keeps, opened by its first job: no later one waits for them.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder

from kafkeep.errors import KafkeepError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import wire_for
from kafkeep.options.kafka import Locations
from kafkeep.store.open import open_store

_NOWHERE = "_kafkeep/nothing"


def open_clients(locations: Locations) -> None:
    """Ask Kafka and the store something cheap, in a task; raises what they fail with."""
    Admin(wire_for(locations.kafka)).cluster_id()
    with suppress(KafkeepError):  # there is no such object
        open_store(locations.archive, locations.storage).head(_NOWHERE)


PRELOAD_VARIABLE = "KAFKEEP_PRELOAD"


def leave_out_zips(path: list[str]) -> list[str]:
    """Return an import path without the zips of a pyspark that is there as a folder too.

    Spark names its zips first. What is in them is compiled anew by every process, for a second,
    and their directories are read again, for half a second, by each worker that begins.
    """
    folders = [entry for entry in path if not entry.endswith(".zip")]
    found = PathFinder.find_spec("pyspark", folders)
    if found is None or not found.submodule_search_locations:
        return path
    home = os.path.join(os.path.realpath(found.submodule_search_locations[0]), "")
    return [entry for entry in path if not os.path.realpath(entry).startswith(home)]


def preload(names: str) -> None:
    """Import ``module`` and call ``module:function`` for each of the names, split by commas.

    A failure is left for the task to meet, where it is reported.
    """
    for name in filter(None, names.split(",")):
        module, _, function = name.partition(":")
        with suppress(Exception):
            loaded = import_module(module)
            if function:
                getattr(loaded, function)()


def run() -> None:
    """Import, then fork workers as Spark asks for them, until it ends."""
    sys.path[:] = leave_out_zips(sys.path)
    sys.path_importer_cache.clear()
    sys.modules.pop("org", None)  # Python's copy looks for Jython's, and finds the one of a jar
    gc.disable()  # nothing that is imported can be freed
    preload("pyarrow,pyspark.worker")
    preload(os.environ.get(PRELOAD_VARIABLE, ""))
    # A worker collects garbage after every task. Walking what was imported here took 0.1 s each
    # time; frozen, it is left alone, and its pages stay shared between the workers.
    gc.freeze()
    gc.enable()
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    run()
