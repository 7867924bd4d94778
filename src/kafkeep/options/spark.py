"""Options of the Spark session, how many tasks it runs at once, and the search for Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kafkeep.errors import EnvironmentFault, UsageError
from kafkeep.options.option import option, positive
from kafkeep.options.units import above_zero, parse_duration

REMOTE_VARIABLE = "SPARK_REMOTE"
RESIDENT_VARIABLE = "KAFKEEP_SPARK_RESIDENT"
_ATTEMPTS = 4
UNLIMITED_SLOTS = 32
"""Planned for where Spark may start any number of executors. Only tasks that have enough to do are
made, and the cluster decides how many of them run at a time."""
_INFINITE = (1 << 31) - 1
"""Spark's default of the greatest number of executors."""
SLOT_KEYS = (
    "spark.master",
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.maxExecutors",
    "spark.executor.cores",
    "spark.cores.max",
    "spark.task.cpus",
)
"""The settings that say how many tasks Spark may run, where a session does not list all."""
_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")


def default_master(cores: int | None = None) -> str:
    """Return the local master that uses every core and allows four attempts for a task.

    Plain ``local[N]`` never retries a task, so one lost worker would fail the run.
    """
    return f"local[{cores or usable_cores()},{_ATTEMPTS}]"


def usable_cores() -> int:
    """Return the number of cores this process may use; a container may limit them."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """Options to start a session; ``conf`` overrides the defaults of kafkeep.

    ``preload`` names modules (``package.module``) or functions without arguments
    (``package.module:function``) that local Python workers import and call once, before they fork.
    ``resident``: run in the resident session if there is one that fits. ``sql``: whether anybody
    asks for Spark SQL; without it, a local JVM has the class path of Spark's core only.
    """

    master: str = field(default_factory=default_master)
    app_name: str = "kafkeep"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    remote: str | None = None
    preload: tuple[str, ...] = ()
    resident: bool = False
    sql: bool = True

    def __post_init__(self) -> None:
        if self.remote is not None:
            check_remote(self.remote)
        else:
            check_master(self.master)

    @classmethod
    def load(
        cls,
        pairs: Iterable[str] = (),
        *,
        master: str | None = None,
        preload: tuple[str, ...] = (),
        resident: bool = False,
        sql: bool = True,
    ) -> SparkOptions:
        """Read ``--spark-conf key=value`` pairs and the environment; UsageError for a bad pair.

        A given master overrides SPARK_REMOTE of the environment. KAFKEEP_SPARK_RESIDENT=off
        overrides ``resident``.
        """
        conf = parse_conf(pairs)
        given, remote = conf.pop("spark.master", ""), conf.pop("spark.remote", "")
        if given and remote:
            raise UsageError(
                "spark.master and spark.remote exclude each other",
                hint="A Spark Connect server has its own master: give spark.remote alone.",
            )
        remote = remote or ("" if given else os.environ.get(REMOTE_VARIABLE, ""))
        return cls(
            master=given or master or default_master(),
            app_name=conf.pop("spark.app.name", "kafkeep"),
            remote=remote or None,
            conf=conf,
            preload=preload,
            resident=resident and is_switched_on(os.environ.get(RESIDENT_VARIABLE)),
            sql=sql,
        )

    def with_preload(self, names: Iterable[str]) -> SparkOptions:
        """Return these options with more names in ``preload``."""
        return replace(self, preload=tuple(dict.fromkeys((*self.preload, *names))))

    @property
    def is_local(self) -> bool:
        """True if tasks run on this machine, in processes that inherit this environment."""
        return self.remote is None and self.master.split("[")[0] == "local"


@dataclass(frozen=True, kw_only=True)
class ResidentOptions:
    """How the resident session behaves."""

    idle_timeout_ms: int = option(
        "idle.timeout",
        "End the session when no command has used it for this long.",
        default=30 * 60_000,
        parse=above_zero(parse_duration),
        metavar="DURATION",
    )


def check_master(master: str) -> None:
    """Raise UsageError for an invalid master, before a JVM starts."""
    if not any(form.fullmatch(master) for form in _MASTERS):
        raise UsageError(
            f"spark.master={master} is not a master that Spark supports",
            hint="Write local, local[4], local-cluster[2,1,1024], spark://host:7077 (several as"
            " spark://host1:7077,host2:7077), yarn, or k8s://https://host:6443.",
        )


def check_remote(remote: str) -> None:
    """Raise UsageError unless ``remote`` is the address of a Spark Connect server."""
    if not _REMOTE.fullmatch(remote):
        raise UsageError(
            f"{remote.partition(';')[0]} is not the address of a Spark Connect server",
            hint="Write spark.remote (or SPARK_REMOTE) as sc://host:15002, or leave it out.",
        )


def is_switched_on(switch: str | None) -> bool:
    """Tell whether the variable of something that is on by default leaves it on."""
    return (switch or "on").lower() not in ("off", "0", "false", "no")


_HOST_PORT = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}"
_COUNT = r"\s*0*[1-9][0-9]{0,8}\s*"
_MASTERS = tuple(
    re.compile(form)
    for form in (
        rf"local(\[({_COUNT}|\*)(,{_COUNT})?\])?",
        rf"local-cluster\[{_COUNT},{_COUNT},{_COUNT}\]",
        rf"spark://{_HOST_PORT}(,{_HOST_PORT})*",
        r"yarn",
        r"k8s://(https?://)?[^\s/]+(/\S*)?",
    )
)
_REMOTE = re.compile(r"sc://(\[[0-9A-Fa-f:.]+\]|[^\s:/;]+)(:[0-9]{1,5})?(/(;\S*)?)?")


def parse_conf(pairs: Iterable[str]) -> dict[str, str]:
    """Split ``key=value`` pairs; a key given twice has its last value."""
    conf = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip().startswith("spark."):
            raise UsageError(
                f"{key.strip()!r} is not a Spark setting",
                hint="Write --spark-conf spark.some.key=value.",
            )
        conf[key.strip()] = value.strip()
    return conf


_HINT = (
    "Install a Java {minimum} runtime (Debian/Ubuntu: apt install openjdk-{minimum}-jre-headless;"
    " macOS: brew install openjdk@{minimum}; anywhere: sdk install java, from sdkman.io),"
    " or set JAVA_HOME to an installed one."
)


def require_java(minimum: int = 17, *, quick: bool = False) -> str:
    """Return the path of a Java executable of version ``minimum`` or newer.

    Search JAVA_HOME if it is set, else PATH. EnvironmentFault when there is none, when it does not
    run, or when it is too old. Runs the executable, which takes about 50 ms. With ``quick``, it
    believes the file in which a runtime names its version, if it is there.
    """
    hint = _HINT.format(minimum=minimum)
    java = find_java_tool("java")
    if java is None:
        raise EnvironmentFault(
            f"Java {minimum} or newer is required, but none was found", hint=hint
        )
    version = (_released_version(java) if quick else None) or java_version(java)
    if version is None:
        raise EnvironmentFault(f"{java} does not print a Java version", hint=hint)
    if major_version(version) < minimum:
        raise EnvironmentFault(
            f"Java {minimum} or newer is required, but {java} is version {version}", hint=hint
        )
    return java


def _released_version(java: str) -> str | None:
    """Return the version in the file ``release`` of a Java runtime, if it is there."""
    try:
        text = (Path(java).resolve().parent.parent / "release").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return found.group(1) if found else None


def java_version(java: str) -> str | None:
    """Run a Java executable and return its version (``17.0.15``); None when that fails."""
    try:
        process = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(process.stderr + process.stdout)


def parse_java_version(text: str) -> str | None:
    """Return the version in the output of ``java -version``."""
    found = re.search(r'version "([^"]+)"', text)
    return found.group(1) if found else None


def major_version(version: str) -> int:
    """Return 17 for ``17.0.15`` and 8 for ``1.8.0_292``, the old numbering."""
    numbers = [int(number) for number in re.findall(r"\d+", version)] or [0]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java_tool(name: str) -> str | None:
    """Return the path of a Java command: from JAVA_HOME if that is set, else from PATH.

    EnvironmentFault when JAVA_HOME has no Java; PATH is not searched then.
    """
    home = os.environ.get("JAVA_HOME")
    if not home:
        return shutil.which(name)
    folder = Path(home) / "bin"
    if shutil.which("java", path=str(folder)) is None:
        raise EnvironmentFault(
            f"JAVA_HOME is {home}, but it contains no Java: {folder / 'java'} cannot be run",
            hint="Set JAVA_HOME to the folder of a Java runtime, which contains bin/java, or unset"
            " it to use the java of PATH.",
        )
    return shutil.which(name, path=str(folder))


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """How many tasks a command plans for."""

    tasks: int | None = option(
        "tasks",
        "Plan for this many tasks at a time, instead of as many as Spark's executors run now.",
        default=None,
        parse=positive("tasks"),
        metavar="N",
    )


def expected_slots(options: SparkOptions) -> int:
    """Return how many tasks a session with these options will run at once, as far as they say."""
    if options.remote is None and (local := _LOCAL.fullmatch(options.master)):
        count = local[1] or "1"
        return usable_cores() if count == "*" else max(1, int(count))
    return slots_on_demand(options.conf) or fixed_slots(options.conf) or usable_cores()


def slots_on_demand(conf: Mapping[str, str], cores_of_executor: int = 1) -> int:
    """Return how many tasks run at once when dynamic allocation has started all it may.

    0 without dynamic allocation, and on a local master, which ignores it. ``cores_of_executor``
    counts where ``spark.executor.cores`` is not set.
    """
    if conf.get("spark.master", "").partition("[")[0] == "local":
        return 0
    if conf.get("spark.dynamicAllocation.enabled", "").strip().lower() != "true":
        return 0
    cores = _number(conf, "spark.executor.cores") or cores_of_executor
    executors = _number(conf, "spark.dynamicAllocation.maxExecutors")
    limits = [
        executors * max(1, cores // _task_cpus(conf)),
        _number(conf, "spark.cores.max") // _task_cpus(conf),
    ]
    return min([limit for limit in limits if limit], default=UNLIMITED_SLOTS)


def fixed_slots(conf: Mapping[str, str]) -> int:
    """Return how many tasks the executors run that the settings ask for; 0 if they do not say."""
    executors = _number(conf, "spark.executor.instances")
    cores = executors * (_number(conf, "spark.executor.cores") or 1)
    return (cores or _number(conf, "spark.cores.max")) // _task_cpus(conf)


def _task_cpus(conf: Mapping[str, str]) -> int:
    return _number(conf, "spark.task.cpus") or 1


def _number(conf: Mapping[str, str], key: str) -> int:
    text = conf.get(key, "").strip()
    number = int(text) if text.isdigit() else 0
    return number if number < _INFINITE else 0
