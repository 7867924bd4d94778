"""How Spark is started, and which Java runs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kafkeep.errors import EnvironmentFault, UsageError

REMOTE_VARIABLE = "SPARK_REMOTE"
_ATTEMPTS = 4


def default_master(cores: int | None = None) -> str:
    """Return the local master that uses every core and tries a failed task four times.

    Plain ``local[N]`` never tries again, so one lost worker would fail the run.
    """
    return f"local[{cores or usable_cores()},{_ATTEMPTS}]"


def usable_cores() -> int:
    """Count the cores this process may use, which in a container are fewer than there are."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """What a session is started with; ``conf`` wins over everything kafkeep would choose.

    ``preload`` names modules (``package.module``) or functions without arguments
    (``package.module:function``) that local Python workers import and call once, before they fork.
    """

    master: str = field(default_factory=default_master)
    app_name: str = "kafkeep"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    remote: str | None = None
    preload: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.remote is not None:
            check_remote(self.remote)
        else:
            check_master(self.master)

    @classmethod
    def load(
        cls, pairs: Iterable[str] = (), *, master: str | None = None, preload: tuple[str, ...] = ()
    ) -> SparkOptions:
        """Read ``--spark-conf key=value`` pairs and the environment; UsageError for a bad pair.

        A master that is given wins over a SPARK_REMOTE of the environment.
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
        )

    def with_preload(self, names: Iterable[str]) -> SparkOptions:
        """Return these options with more to preload."""
        return replace(self, preload=tuple(dict.fromkeys((*self.preload, *names))))

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine, in processes that inherit our environment."""
        return self.remote is None and self.master.split("[")[0] == "local"


def check_master(master: str) -> None:
    """Refuse what Spark cannot take as a master, before a JVM is started to find that out."""
    if not any(form.fullmatch(master) for form in _MASTERS):
        raise UsageError(
            f"spark.master={master} names no master that Spark knows",
            hint="Write local, local[4], local-cluster[2,1,1024], spark://host:7077 (several as"
            " spark://host1:7077,host2:7077), yarn, or k8s://https://host:6443.",
        )


def check_remote(remote: str) -> None:
    """Refuse what is not the address of a Spark Connect server."""
    if not _REMOTE.fullmatch(remote):
        raise UsageError(
            f"{remote.partition(';')[0]} is not the address of a Spark Connect server",
            hint="Write spark.remote (or SPARK_REMOTE) as sc://host:15002, or leave it out.",
        )


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
    " or set JAVA_HOME to one that is there."
)


def require_java(minimum: int = 17) -> str:
    """Return the path of a Java executable of version ``minimum`` or newer.

    JAVA_HOME decides when it is set, else PATH. Raises EnvironmentFault when there is none, when
    it does not run, or when it is too old; asks the executable itself, so it costs some 50 ms.
    """
    hint = _HINT.format(minimum=minimum)
    java = find_java_tool("java")
    if java is None:
        raise EnvironmentFault(f"Java {minimum} or newer is needed, and none was found", hint=hint)
    version = java_version(java)
    if version is None:
        raise EnvironmentFault(f"{java} does not say its version; is it Java?", hint=hint)
    if major_version(version) < minimum:
        raise EnvironmentFault(
            f"Java {minimum} or newer is needed, and {java} is version {version}", hint=hint
        )
    return java


def java_version(java: str) -> str | None:
    """Ask a Java executable for its version (``17.0.15``); None when it does not answer."""
    try:
        asked = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(asked.stderr + asked.stdout)


def parse_java_version(text: str) -> str | None:
    """Pick the version out of what ``java -version`` prints."""
    found = re.search(r'version "([^"]+)"', text)
    return found.group(1) if found else None


def major_version(version: str) -> int:
    """Return 17 for ``17.0.15`` and 8 for ``1.8.0_292``, the way old ones counted."""
    numbers = [int(number) for number in re.findall(r"\d+", version)] or [0]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java_tool(name: str) -> str | None:
    """Return the path of a Java's command: the one of JAVA_HOME when that is set, else of PATH.

    A JAVA_HOME without a Java raises EnvironmentFault: another Java is never taken in its place.
    """
    home = os.environ.get("JAVA_HOME")
    if not home:
        return shutil.which(name)
    folder = Path(home) / "bin"
    if shutil.which("java", path=str(folder)) is None:
        raise EnvironmentFault(
            f"JAVA_HOME is {home}, and there is no Java in it: {folder / 'java'} cannot be run",
            hint="Set JAVA_HOME to the folder of a Java runtime, the one that holds bin/java, or"
            " unset it to use the java of PATH.",
        )
    return shutil.which(name, path=str(folder))
