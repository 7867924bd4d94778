"""Downloads kept for the next time: Kafka's jars and the registry, fetched from Maven Central.

They are resolved by the Ivy that ships inside PySpark, so nothing else has to be installed.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkeep.dev.kafka_version import KafkaVersion
from kafkeep.errors import EnvironmentFault, UsageError
from kafkeep.options.spark import require_java

REGISTRY_VERSION = "2.6.13.Final"
_LOG4J_VERSION = "2.24.3"

Progress = Callable[[str], None]

_MODULE = """\
<ivy-module version="2.0" xmlns:e="http://ant.apache.org/ivy/extra">
  <info organisation="kafkeep" module="{name}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
_DEPENDENCY = '    <dependency org="{}" name="{}" rev="{}" conf="default"/>'
# Log4j 1, and what sends SLF4J's lines there: Log4j 2 takes their place.
_WITHOUT = "".join(
    f'\n    <exclude org="{org}" module="{module}"/>'
    for org, module in (
        ("log4j", "log4j"),
        ("ch.qos.reload4j", "reload4j"),
        ("org.slf4j", "slf4j-log4j12"),
        ("org.slf4j", "slf4j-reload4j"),
    )
)
_REGISTRY = f"""\
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{REGISTRY_VERSION}"
                conf="default->master" transitive="false">
      <artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" e:classifier="all"/>
    </dependency>"""
# One configuration for brokers and tools: a tool's stdout is data, so talk goes to stderr.
_LOG4J = """\
status=error
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=${sys:kafkeep.level:-warn}
rootLogger.appenderRef.console.ref=console
"""


def cache_folder() -> Path:
    """Return where downloads are kept: KAFKEEP_CACHE, else kafkeep/ in the user's cache."""
    if own := os.environ.get("KAFKEEP_CACHE"):
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "kafkeep"


def kafka_home(version: KafkaVersion, progress: Progress = lambda _: None) -> Path:
    """Return the folder of Kafka's jars (``libs/``), downloaded once per machine (55 MB)."""

    def fill(folder: Path) -> None:
        _resolve("kafka", _kafka_jars(version), folder / "libs", types=("jar", "bundle"))
        (folder / "log4j2.properties").write_text(_LOG4J)

    try:
        return cached(
            f"kafka-{version}", fill, progress, f"downloading Kafka {version} (55 MB), once"
        )
    except _NotThereError as error:
        raise UsageError(
            f"there is no Kafka {version} to download",
            hint="Name a version that was released, such as 2.8.2, 3.9.1 or 4.1.0.",
        ) from error


def _kafka_jars(version: KafkaVersion) -> str:
    jars = [("org.apache.kafka", name, str(version)) for name in ("kafka_2.13", "kafka-tools")]
    logging = ["log4j-core", "log4j-slf4j-impl"]
    logging += ["log4j-1.2-api"] if version.logs_with_log4j_1 else []
    jars += [("org.apache.logging.log4j", name, _LOG4J_VERSION) for name in logging]
    return "\n".join(_DEPENDENCY.format(*jar) for jar in jars) + _WITHOUT


def registry_home(progress: Progress = lambda _: None) -> Path:
    """Return the folder of Apicurio Registry, downloaded once per machine (140 MB)."""

    def fill(folder: Path) -> None:
        _resolve("registry", _REGISTRY, folder / "download", types=("tar.gz",))
        for archive in (folder / "download").iterdir():
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
        shutil.rmtree(folder / "download")

    name = f"apicurio-{REGISTRY_VERSION}"
    what = f"downloading Apicurio Registry {REGISTRY_VERSION} (140 MB), once"
    return cached(name, fill, progress, what)


def cached(name: str, fill: Callable[[Path], None], progress: Progress, what: str) -> Path:
    """Return the cached folder ``name``, made by ``fill`` if it is not there; whole or not at all.

    ``what`` is the line of progress. Two processes at once: one works, the other waits for it.
    """
    home = cache_folder() / name
    if home.is_dir():
        return home
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with locked(home.parent / f"{name}.lock"):
            if home.is_dir():
                return home
            progress(what)
            with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{name}.") as scratch:
                fill(Path(scratch) / "new")
                (Path(scratch) / "new").rename(home)
    except OSError as error:
        raise EnvironmentFault(
            f"the cache folder {home.parent} cannot be written: {error}",
            hint="Set KAFKEEP_CACHE to a folder that can.",
        ) from error
    return home


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold ``path`` as a lock between processes of this machine; waits for it."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _resolve(name: str, dependencies: str, into: Path, *, types: tuple[str, ...]) -> None:
    into.mkdir(parents=True)
    module = into.parent / "ivy.xml"
    module.write_text(_MODULE.format(name=name, dependencies=dependencies))
    argv = [require_java(), "-jar", str(_ivy_jar())]
    if settings := os.environ.get("KAFKEEP_IVY_SETTINGS"):
        argv += ["-settings", settings]
    pattern = f"{into}/[artifact]-[revision](-[classifier]).[ext]"
    argv += ["-ivy", str(module), "-confs", "default", "-types", *types, "-retrieve", pattern]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not any(into.iterdir()):
        output = [
            line.strip(": \t") for line in done.stdout.splitlines() + done.stderr.splitlines()
        ]
        problems = [line for line in output if "not found" in line or "FAILED" in line]
        kind = EnvironmentFault if _is_unreachable(output) else _NotThereError
        raise kind(
            f"{name} could not be downloaded from Maven Central",
            hint="Check the network; KAFKEEP_IVY_SETTINGS may name an Ivy settings file with a"
            " mirror. Ivy's output:\n" + "\n".join(problems[-8:] or output[-8:]),
        )


class _NotThereError(EnvironmentFault):
    """The repository answers, but does not have the requested files."""


def _is_unreachable(output: list[str]) -> bool:
    """Return, by Ivy's output, whether the repository did not answer."""
    return not any("module not found" in line for line in output) or any(
        sign in line for line in output for sign in _NO_ANSWER
    )


_NO_ANSWER = ("Server access error", "Host ", "Connection", "timed out", "SERVER ERROR")


def _ivy_jar() -> Path:
    # Looked up, not imported: importing pyspark costs half a second and belongs to spark/.
    found = importlib.util.find_spec("pyspark")
    folders = list(found.submodule_search_locations or ()) if found else []
    for folder in folders:
        for jar in sorted((Path(folder) / "jars").glob("ivy-*.jar")):
            return jar
    raise EnvironmentFault(
        "the Ivy jar that ships inside PySpark was not found", hint="Reinstall pyspark."
    )
