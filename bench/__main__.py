"""``python -m bench``: a table for people and a JSON document for machines."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from bench import cases, topics
from bench.versions import FORMATS, Comparison, beside_version
from bench.whole_runs import SESSIONS, sizes_up_to
from kafkeep.dev import DevOptions, start, stop
from kafkeep.options.spark import RESIDENT_VARIABLE

MEMORY = Path("/dev/shm")
NEEDED_BYTES = 12 << 30


def main() -> None:
    """Run the chosen cases on services of their own."""
    asked = _asked()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stops its services, too
    folder = Path(tempfile.mkdtemp(prefix="kafkeep-bench-", dir=asked.folder))
    status = start(DevOptions(folder=folder, secure=True), progress=_say)
    os.environ.update({**status.s3.environment, RESIDENT_VARIABLE: "off"})
    results = {}
    try:
        topics.give_back_soon(status.bootstrap_servers)
        if asked.against:
            comparison = _comparison(asked)
            results[f"beside {asked.against}"] = beside_version(status, asked.repeat, comparison)
        for name, case in cases.CASES.items():
            if not asked.against and (asked.only is None or name in asked.only):
                _say(f"measuring {name}")
                results[name] = case(status, asked.records, asked.repeat)
    finally:
        stop(folder, purge=True)
        shutil.rmtree(folder, ignore_errors=True)
    _show(results)
    document = {
        "records": asked.records,
        "cores": os.cpu_count(),
        "folder": str(asked.folder),
        "cases": results,
    }
    print(json.dumps(document))
    if asked.json:
        asked.json.write_text(json.dumps(document, indent=1) + "\n")


def _asked() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--repeat", type=int, default=5, help="runs of the main cases")
    parser.add_argument("--json", type=Path, help="also write the document here")
    parser.add_argument(
        "--folder",
        type=Path,
        default=_folder(),
        help="where the services keep their data; %(default)s if not given",
    )
    parser.add_argument("--only", nargs="*", choices=sorted(cases.CASES), default=None)
    parser.add_argument(
        "--against",
        metavar="REVISION",
        help="run this Git revision and the working tree in turn, --repeat times, and nothing else",
    )
    comparing = parser.add_argument_group("with --against")
    comparing.add_argument("--sizes", type=int, nargs="+", help="records of the topics")
    comparing.add_argument("--sessions", nargs="+", choices=SESSIONS, help="all if not given")
    comparing.add_argument("--formats", nargs="*", choices=FORMATS, help="all if not given")
    asked = parser.parse_args()
    chosen = asked.sizes or asked.sessions or asked.formats is not None
    if asked.against and asked.only is not None:
        parser.error("--against runs no cases: leave out --only")
    if chosen and not asked.against:
        parser.error("--sizes, --sessions and --formats belong to --against")
    return asked


def _comparison(asked: argparse.Namespace) -> Comparison:
    return Comparison(
        asked.against,
        asked.sizes or sizes_up_to(asked.records),
        asked.sessions or tuple(SESSIONS),
        tuple(FORMATS) if asked.formats is None else asked.formats,
    )


def _folder() -> Path:
    """Return a folder in memory where there is enough of it.

    A disk that writes back what the case before left slows down whatever comes next.
    """
    try:
        is_enough = shutil.disk_usage(MEMORY).free >= NEEDED_BYTES
    except OSError:
        is_enough = False
    return MEMORY if is_enough else Path(tempfile.gettempdir())


def _show(results: dict[str, dict[str, float]]) -> None:
    for name, values in results.items():
        print(f"\n{name}")
        for key, value in values.items():
            shown = f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"
            print(f"  {key:<44} {shown:>16}")
    print()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
