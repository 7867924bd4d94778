"""The process that Spark forks local Python workers from, with the imports done beforehand.

Each worker would otherwise import pyarrow, numba and the task's modules by itself, for about a
second. What is imported here must not open connections or start threads: neither survives a fork.
"""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from importlib import import_module

import pyarrow  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

PRELOAD_VARIABLE = "KAFKEEP_PRELOAD"


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


if __name__ == "__main__":
    preload(os.environ.get(PRELOAD_VARIABLE, ""))
    # A worker collects garbage after every task. Walking what was imported here took 0.1 s each
    # time; frozen, it is left alone, and its pages stay shared between the workers.
    gc.collect()
    gc.freeze()
    manager()
