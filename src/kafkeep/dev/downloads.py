"""Programs that are fetched or built once per machine, and kept for the next time.

Kafka's jars and the registry come from Maven Central. The Ivy that ships inside PySpark resolves
them, so nothing else has to be installed. MinIO and fake-gcs-server are built by Go from its module
proxy, and npm installs Azurite.
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
MINIO_VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
FAKE_GCS_VERSION = "v1.56.1"
AZURITE_VERSION = "3.37.0"


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


def minio_command(progress: Progress = lambda _: None) -> Path:
    """Return the MinIO server: one on PATH, else one that is built once (minutes of CPU)."""
    if found := shutil.which("minio"):
        return Path(found)
    return _go_build("MinIO", "github.com/minio/minio", MINIO_VERSION, progress)


def fake_gcs_command(progress: Progress = lambda _: None) -> Path:
    """Return fake-gcs-server, an emulator of Google Cloud Storage, which is built once."""
    module = "github.com/fsouza/fake-gcs-server"
    return _go_build("fake-gcs-server", module, FAKE_GCS_VERSION, progress)


def azurite_command(progress: Progress = lambda _: None) -> tuple[str, Path]:
    """Return Node.js and Azurite's blob service, an emulator of Azure, which is installed once."""
    node = _tool("node", "Azurite", "Install Node.js 20 or newer, with npm.")

    def fill(folder: Path) -> None:
        argv = [_tool("npm", "Azurite", "Install npm."), "install", "--prefix", str(folder)]
        argv += ["--no-audit", "--no-fund", "--ignore-scripts", f"azurite@{AZURITE_VERSION}"]
        _run("Azurite", argv, {})

    what = f"installing Azurite {AZURITE_VERSION} with npm (365 MB), once"
    home = cached(f"azurite-{AZURITE_VERSION}", fill, progress, what)
    return node, home / "node_modules/azurite/dist/src/blob/main.js"


def _go_build(name: str, module: str, version: str, progress: Progress) -> Path:
    def fill(folder: Path) -> None:
        hint = f"Install Go 1.24 or newer to build {name}, or put its command on PATH."
        argv = [_tool("go", name, hint), "install", f"{module}@{version}"]
        _run(name, argv, {"GOBIN": str(folder)})

    command = module.rpartition("/")[2]
    what = f"building {name} {version} with Go, once; this takes minutes"
    return cached(f"{command}-{version}", fill, progress, what) / command


def _tool(command: str, name: str, hint: str) -> str:
    found = shutil.which(command)
    if found is None:
        raise EnvironmentFault(f"{name} needs the command {command}, which is missing", hint=hint)
    return found


def _run(name: str, argv: list[str], environment: dict[str, str]) -> None:
    settings = {**os.environ, **environment}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=settings)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-8:])
        raise EnvironmentFault(
            f"{name} could not be installed", hint=f"Check the network. The output ends:\n{tail}"
        )
