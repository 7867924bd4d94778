"""Bring the services up, run the steps, clean up whatever happens."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from kafkeep.demo.story import DemoResult, Show, Story, heading, open_spark
from kafkeep.dev import DevOptions, DevStatus, start, status, stop
from kafkeep.errors import UsageError

FOLDER_PREFIX = "kafkeep-demo-"


def run_demo(
    show: Show,
    *,
    folder: Path | None = None,
    keep: bool = False,
    linger: Callable[[DevStatus], None] | None = None,
    stream_seconds: float = 5.0,
) -> DemoResult:
    """Run the demo and return how it ended.

    Services live in ``folder``, or in one of their own. At the end, also after an error or
    Ctrl-C, they are stopped and their data removed, unless ``keep``. ``linger`` is called in
    between, while they are up. A folder that holds an environment is refused: it is someone's.
    """
    import_module("kafkeep.spark.datasource.source")  # refuses a Spark that cannot query archives
    place = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX)) if folder is None else folder
    _refuse_taken(place)
    began = time.monotonic()
    try:
        show(heading(1, "Start Kafka and an S3 server on this machine").lstrip("\n"))
        show(f"  $ kafkeep dev up --folder {place}")
        with open_spark() as spark:
            services = start(DevOptions(folder=place), progress=lambda line: show(f"  {line}"))
            result = Story(services, spark, show, stream_seconds=stream_seconds).run()
        show(f"  the demo took {time.monotonic() - began:.0f} s")
        if linger is not None:
            linger(services)
        return result
    finally:
        if not keep:
            show("\nStopping the services and removing their data.")
            _clean_up(place, own=folder is None)


def _refuse_taken(folder: Path) -> None:
    try:
        status(folder)
    except UsageError:
        return
    raise UsageError(
        f"{folder} already holds a development environment",
        hint="Name another --folder, or remove it with kafkeep dev down --purge.",
    )


def _clean_up(folder: Path, *, own: bool) -> None:
    stop(folder, purge=True)
    if own:
        shutil.rmtree(folder, ignore_errors=True)
