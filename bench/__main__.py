"""``python -m bench``: a table for people and a JSON document for machines."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from bench import cases, topics
from bench.versions import beside_version
from kafkeep.dev import DevOptions, start, stop

MEMORY = Path("/dev/shm")
NEEDED_BYTES = 12 << 30


def main() -> None:
    """Run the chosen cases on services of their own."""
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
        help="run this Git revision and the working tree in turn, --repeat times, and nothing "
        "else; with --only 'whole runs' leave out the formats of the sink",
    )
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kafkeep-bench-", dir=asked.folder))
    status = start(DevOptions(folder=folder, secure=True), progress=_say)
    os.environ.update(status.s3.environment)
    results = {}
    try:
        topics.give_back_soon(status.bootstrap_servers)
        if asked.against:
            results[f"beside {asked.against}"] = beside_version(
                status,
                asked.records,
                asked.repeat,
                asked.against,
                with_sinks=asked.only != ["whole runs"],
            )
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
