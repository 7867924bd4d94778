"""How Spark is started: declared once for the command line, the library and the docs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkeep.errors import UsageError

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

    @classmethod
    def load(
        cls, pairs: Iterable[str] = (), *, master: str | None = None, preload: tuple[str, ...] = ()
    ) -> SparkOptions:
        """Read ``--spark-conf key=value`` pairs and the environment; UsageError for a bad pair."""
        conf = parse_conf(pairs)
        return cls(
            master=conf.pop("spark.master", "") or master or default_master(),
            app_name=conf.pop("spark.app.name", "kafkeep"),
            remote=conf.pop("spark.remote", "") or os.environ.get(REMOTE_VARIABLE) or None,
            conf=conf,
            preload=preload,
        )

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine, in processes that inherit our environment."""
        return self.remote is None and self.master.split("[")[0] == "local"


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
