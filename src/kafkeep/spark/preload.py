"""Spark's JVM started before Python has imported the rest: a second less to wait.

Light on purpose: importing it must not import pyspark.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from kafkeep.options.spark import SparkOptions
from kafkeep.spark.jvm import Jvm, can_start_lean, launch_jvm

PRELOAD = (
    "kafkeep.backup.task",
    "kafkeep.restore.task",
    "kafkeep.backup.compile_kernels:compile_kernels",
    "kafkeep.store.s3:load_models",
)
"""What local Python workers import and call once, before they fork."""
SINK_PRELOAD = ("kafkeep.backup.compile_kernels:compile_sink_kernels",)
"""The same for sinks: their formats, converters and kernels take most of a second."""

_launched: list[tuple[SparkOptions, Jvm]] = []


def with_sinks(options: SparkOptions) -> SparkOptions:
    """Add what tasks of a sink need."""
    return replace(options, preload=tuple(dict.fromkeys((*options.preload, *SINK_PRELOAD))))


def launch_early(options: SparkOptions) -> None:
    """Start a JVM that the next door with the same options takes; at most one waits.

    Does nothing when pyspark is loaded already: there may be a session, and nothing to gain.
    """
    options = with_preload(options)
    if not _launched and "pyspark" not in sys.modules and can_start_lean(options):
        _launched.append((options, launch_jvm(options)))


def take_launched(options: SparkOptions) -> Jvm | None:
    """Return the JVM that waits for these options, and forget it; one for others is stopped."""
    while _launched:
        asked, jvm = _launched.pop()
        if asked == options:
            return jvm
        jvm.stop()
    return None


def with_preload(options: SparkOptions) -> SparkOptions:
    """Add what kafkeep's tasks need."""
    return replace(options, preload=tuple(dict.fromkeys((*options.preload, *PRELOAD))))
