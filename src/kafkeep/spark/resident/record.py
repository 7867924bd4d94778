"""The private file that says where the resident session is, and what it was started from.

Only its owner may read it: it holds the token that the server asks for. This module does not import
pyspark: every command reads the file before it imports anything else.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
import stat
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from kafkeep.errors import EnvironmentFault
from kafkeep.spark.class_archive import cache_folder
from kafkeep.spark.jvm import spark_home

PROOF_KEY = "spark.kafkeep.resident.proof"
"""The property that holds a digest of a session's proof. Its name is none that Spark masks: since
4.2.1, a server does not tell its clients such a property."""
_FILE = "session.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What a session was started from: ``digest`` covers the files of kafkeep and of its libraries.

    Workers that were forked before an upgrade would run the old code.
    """

    kafkeep: str
    spark: str
    python: str
    digest: str

    @classmethod
    def current(cls) -> Runtime:
        """Return that of this process; it reads no file but pyspark's version, and takes 5 ms."""
        home = spark_home()
        package = Path(__file__).resolve().parents[2]
        sources = sorted(str(_stamp(path)) for path in package.rglob("*.py"))
        parts = [sys.version, sys.prefix, str(package), str(_stamp(home.parent)), *sources]
        return cls(
            kafkeep=str(vars(sys.modules["kafkeep"])["__version__"]),  # a higher layer
            spark=_spark_version(home),
            python=platform.python_version(),
            digest=hashlib.sha256("\0".join(parts).encode()).hexdigest(),
        )

    def difference(self, other: Runtime) -> str | None:
        """Return in words how ``other`` differs; None if it does not."""
        for name in ("kafkeep", "spark", "python"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                return f"it runs {name} {theirs}, this is {mine}"
        if self.digest != other.digest:
            return "kafkeep or a library was installed or changed since it started"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A resident session: its process, the address of its server, and what it was started with.

    ``settings`` holds a digest of each Spark property that was given, not its value. Only this
    server knows ``proof``, and a digest of it is one of its properties: whoever took its port
    afterwards does not have it.
    """

    host: str
    pid: int
    pid_started: int
    port: int
    token: str = field(repr=False)
    proof: str = field(repr=False)
    runtime: Runtime
    master: str
    settings: dict[str, str]
    started_ms: int
    idle_timeout_ms: int

    @property
    def address(self) -> str:
        """The server's address, without its token."""
        return f"sc://localhost:{self.port}"

    def is_alive(self) -> bool:
        """Tell whether the process is the one that wrote the record, and its server listens."""
        if self.host != socket.gethostname() or not is_running(self.pid, self.pid_started):
            return False
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
            return True
        return False

    def digest_of(self, value: str) -> str:
        """Return the digest under which the value of a property is kept."""
        return digest_setting(self.proof, value)


def digest_setting(salt: str, value: str) -> str:
    """Return a digest of a property's value that says nothing without the salt."""
    return hashlib.sha256(f"{salt}\0{value}".encode()).hexdigest()


def resident_folder() -> Path:
    """Return the folder of this user's resident session."""
    return cache_folder() / f"resident-{os.getuid()}"


def make_private_folder() -> Path:
    """Create the folder, for this user alone; EnvironmentFault if others can reach into it."""
    folder = resident_folder()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        problem = _not_private(folder.lstat(), stat.S_ISDIR, 0o700)
    except OSError as error:
        problem = error.strerror or str(error)
    if problem is not None:
        raise EnvironmentFault(
            f"{folder} cannot hold the resident session: {problem}",
            hint="Remove it, or name another folder for kafkeep's cache in KAFKEEP_CACHE.",
        )
    return folder


def write_record(record: SessionRecord) -> None:
    """Put the record in place, whole or not at all."""
    path = make_private_folder() / _FILE
    part = path.with_suffix(f".{os.getpid()}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(asdict(record), file)
    part.replace(path)


def read_record() -> SessionRecord | None:
    """Return the record; None if there is none, or if it cannot be read as one.

    EnvironmentFault when the folder or the file is not this user's alone: a session that somebody
    else started would get credentials.
    """
    folder = resident_folder()
    try:
        problem = _not_private(folder.lstat(), stat.S_ISDIR, 0o700)
        if problem is None:
            handle = os.open(folder / _FILE, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(handle) as file:
                problem = _not_private(os.fstat(handle), stat.S_ISREG, 0o600)
                document = json.load(file) if problem is None else {}
    except FileNotFoundError:
        return None
    except ValueError:
        return None
    except OSError as error:
        problem = error.strerror or str(error)
    if problem is not None:
        raise EnvironmentFault(
            f"the resident session in {folder} is not used: {problem}",
            hint=f"Remove {folder}.",
        )
    return _parse(document)


def remove_record(pid: int) -> None:
    """Remove the record if it is that of process ``pid``."""
    with suppress(OSError, EnvironmentFault):
        found = read_record()
        if found is not None and found.pid == pid:
            (resident_folder() / _FILE).unlink()


def start_time(pid: int) -> int:
    """Return when a process started, in the kernel's ticks; 0 where the system does not say.

    It is 0 for a process that has ended, and whose parent has not taken notice yet.
    """
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return 0 if fields[0] == "Z" else int(fields[19])
    return 0


def is_running(pid: int, started: int) -> bool:
    """Tell whether the process that started then still runs, not another with its number."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return start_time(pid) == started


def _not_private(found: os.stat_result, is_kind: Any, mode: int) -> str | None:
    if not is_kind(found.st_mode):
        return "it is not what kafkeep created"
    if found.st_uid != os.getuid():
        return f"it belongs to user {found.st_uid}"
    if stat.S_IMODE(found.st_mode) & ~mode:
        return f"its mode is {stat.S_IMODE(found.st_mode):o}, so others can reach it"
    return None


def _parse(document: Any) -> SessionRecord | None:
    try:
        known = {one.name: document[one.name] for one in fields(SessionRecord)}
        return SessionRecord(**{**known, "runtime": Runtime(**known["runtime"])})
    except (KeyError, TypeError):
        return None  # of another version


def _stamp(path: Path) -> tuple[str, int, int]:
    found = path.stat()
    return str(path), found.st_size, found.st_mtime_ns


def _spark_version(home: Path) -> str:
    text = (home / "version.py").read_text()
    _, _, rest = text.partition("__version__")
    return rest.partition("=")[2].partition("\n")[0].split("#")[0].strip(" \"'") or "unknown"
