"""Run the tasks of a command in the resident session's workers as if the command had forked them.

Credentials, proxies and settings come from the environment of the command, never from that of the
session. A worker runs one task and ends, so nothing of it remains for the next command.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kafkeep.failpoint import arm_from_environment

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CommandEnvironment:
    """What processes inherit: the variables, the current folder and the mode of new files."""

    variables: dict[str, str] = field(repr=False)
    folder: str
    umask: int

    @classmethod
    def current(cls) -> CommandEnvironment:
        """Return that of this process."""
        umask = os.umask(0o077)
        os.umask(umask)
        try:
            folder = os.getcwd()
        except FileNotFoundError:  # somebody removed it
            folder = os.sep
        return cls(dict(os.environ), folder, umask)

    def enter(self) -> None:
        """Make it that of this process."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(_OF_SPARK)}
        os.environ.clear()
        os.environ.update({**self.variables, **kept})
        time.tzset()
        os.umask(self.umask)
        os.chdir(self.folder)
        arm_from_environment()


_OF_SPARK = ("SPARK_", "PYSPARK_", "PYTHON")
"""What Spark sets for its workers, and asks them for."""


@dataclass(frozen=True, slots=True)
class RunInEnvironment(Generic[T]):
    """Runs in a worker of the resident session: enters the environment, then runs the function."""

    environment: CommandEnvironment
    function: Callable[[Iterable[bytes]], Iterator[T]]

    def __call__(self, parts: Iterable[bytes]) -> Iterator[T]:
        self.environment.enter()
        return self.function(parts)
