"""Kafka's config providers: references to values in files or environment variables.

``${file:/run/secrets/s3.properties:key}``, ``${dir:/run/secrets:password}`` and ``${env:NAME}``
are resolved when a job starts. The result is never stored and never shown. A provider reads only
what the worker's file allows. Otherwise a caller who may define a connector could read every file
that the service can read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from kafkeep.errors import UsageError
from kafkeep.options.config_files import check_path, parse_properties
from kafkeep.options.java_regex import JavaPattern, compile_java_regex
from kafkeep.options.option import ConfigErrors

PREFIX = "config.providers"
PACKAGE = "org.apache.kafka.common.config.provider."
CLASSES = ("FileConfigProvider", "DirectoryConfigProvider", "EnvVarConfigProvider")
_SHORT = {"file": CLASSES[0], "dir": CLASSES[1], "directory": CLASSES[1], "env": CLASSES[2]}
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_MAX_BYTES = 1 << 20


class ConfigReference(NamedTuple):
    """The place of a reference in a value, and what it names."""

    start: int
    stop: int
    provider: str
    path: str
    key: str


def iter_references(text: str) -> Iterator[ConfigReference]:
    """Yield the references in a value from left to right, as Kafka finds them.

    One pass: a regular expression takes hours for a few kilobytes of ``${a:``.
    """
    stop = 0
    while (start := text.find("${", stop)) >= 0 and (end := text.find("}", start)) >= 0:
        stop = end + 1
        provider, colon, rest = text[start + 2 : end].partition(":")
        if colon:
            path, second, key = rest.partition(":")
            yield ConfigReference(start, stop, provider, *((path, key) if second else ("", rest)))


def is_reference(text: str) -> bool:
    """Return True for a value that is one reference and nothing else."""
    first = next(iter_references(text), None)
    return first is not None and (first.start, first.stop) == (0, len(text))


def without_references(text: str) -> str:
    """Return a value without its references."""
    parts, end = [], 0
    for one in iter_references(text):
        parts.append(text[end : one.start])
        end = one.stop
    return "".join([*parts, text[end:]])


class FromProvider(str):
    """A value that comes from a config provider, in part or as a whole: secret under any key.

    Otherwise the error message for ``flush.size=${file:…}`` would show a secret. ``words`` are the
    parts that a provider returned.
    """

    words: tuple[str, ...]

    def __new__(cls, text: str, words: Iterable[str] = ()) -> FromProvider:
        """Create it from the whole value and the parts that a provider returned."""
        made = super().__new__(cls, text)
        made.words = tuple(word for word in words if _could_be_secret(word))
        return made


def _could_be_secret(word: str) -> bool:
    """Exclude numbers and switches: to mask each of them would make logs unreadable."""
    return len(word) > 5 and not word.isdecimal()


class Provider(Protocol):
    """A source of values."""

    def get(self, path: str, key: str) -> str:
        """Return a value; UsageError says why it is not available, without any value."""


@dataclass(frozen=True, slots=True)
class Providers:
    """The providers of a worker's file."""

    by_name: Mapping[str, Provider] = field(default_factory=dict)

    @classmethod
    def from_worker(
        cls, properties: Mapping[str, str], environ: Mapping[str, str] | None = None
    ) -> Providers:
        """Parse ``config.providers`` and the keys under it; ConfigErrors names what is wrong.

        ``environ`` is where variables are looked up later; the default is this process's.
        """
        names = [name.strip() for name in properties.get(PREFIX, "").split(",") if name.strip()]
        wrong: dict[str, str] = _unknown_keys(properties, names)
        found: dict[str, Provider] = {}
        for name in names:
            try:
                found[name] = _make(name, properties, os.environ if environ is None else environ)
            except ConfigErrors as error:
                wrong |= error.by_key
        if wrong:
            raise ConfigErrors(wrong)
        return cls(found)

    def resolve(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return the configuration with every reference resolved; ConfigErrors by key.

        Resolved values are FromProvider, so that ``hide`` and ``mask`` recognise them.
        """
        wrong: dict[str, str] = {}
        whole: dict[str, str] = {}
        for key, text in config.items():
            try:
                whole[key] = self._resolved(text)
            except UsageError as error:
                wrong[key] = error.message
        if wrong:
            raise ConfigErrors(wrong)
        return whole

    def _resolved(self, text: str) -> str:
        words: list[str] = []
        parts: list[str] = []
        end = 0
        for reference in iter_references(text):
            written = text[reference.start : reference.stop]
            value = self._value(reference, written)
            if value != written:
                words.append(value)
            parts += [text[end : reference.start], value]
            end = reference.stop
        filled = "".join([*parts, text[end:]])
        return FromProvider(filled, words) if words else filled

    def _value(self, reference: ConfigReference, written: str) -> str:
        name = reference.provider
        if _NAME.fullmatch(name) is None:
            return written
        provider = self.by_name.get(name)
        if provider is not None:
            return provider.get(reference.path, reference.key)
        kind = _SHORT.get(name, "…")
        lines = f"{PREFIX}={','.join([*self.by_name, name])}, {PREFIX}.{name}.class={PACKAGE}{kind}"
        raise UsageError(
            f"{written} needs a config provider {name}, and the worker has none: its file "
            f"needs the lines {lines} and what that may read"
        )


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders and files that may be read; nothing outside, by ``..`` or by a link."""

    key: str
    """The key of the worker's file that lists them."""
    allowed: tuple[Path, ...]

    def open_path(self, text: str) -> Path:
        """Return the real path; UsageError when it is relative, not allowed or missing."""
        path = check_path(text)
        if not path.is_absolute():
            raise UsageError(f"{text!r} is not an absolute path")
        if not self.allowed:
            raise UsageError(f"{text} may not be read: the worker's file needs {self.key}=…")
        plain = Path(os.path.normpath(text))
        if not self._is_inside(plain, self.allowed):
            raise UsageError(f"{text} may not be read: it is not under {self.key}")
        real = [one.resolve() for one in self.allowed]
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise UsageError(f"{text} cannot be read: {_reason(error)}") from error
        if not self._is_inside(target, real):
            raise UsageError(f"{text} may not be read: it leads out of {self.key}")
        return target

    @staticmethod
    def _is_inside(path: Path, folders: tuple[Path, ...] | list[Path]) -> bool:
        return any(path.is_relative_to(folder) for folder in folders)


@dataclass(frozen=True, slots=True)
class FileProvider:
    """Kafka's FileConfigProvider: keys of ``.properties`` files."""

    folders: Folders

    def get(self, path: str, key: str) -> str:
        """Return one key of the file."""
        text = _read(self.folders.open_path(path), path)
        try:
            found = parse_properties(text)
        except UsageError as error:
            raise UsageError(f"{path} is not a .properties file: {error.message}") from error
        if key not in found:
            raise UsageError(f"there is no key {key} in {path}")
        return found[key]


@dataclass(frozen=True, slots=True)
class DirectoryProvider:
    """Kafka's DirectoryConfigProvider: a folder of files, each one value."""

    folders: Folders

    def get(self, path: str, key: str) -> str:
        """Return the content of one file with its last newline, as Kafka does."""
        if not key or "/" in key or "\0" in key or key in (".", ".."):
            raise UsageError(f"{key!r} is not the name of a file")
        name = str(Path(path) / key)
        return _read(self.folders.open_path(name), name)


@dataclass(frozen=True, slots=True)
class EnvProvider:
    """Kafka's EnvVarConfigProvider: variables whose whole name the pattern matches."""

    key: str
    pattern: JavaPattern | None
    environ: Mapping[str, str] = field(repr=False)

    def get(self, path: str, key: str) -> str:
        """Return the variable ``key``."""
        if path.strip():
            raise UsageError(f"a variable has no path: remove {path!r} before {key}")
        if self.pattern is None:
            raise UsageError(f"{key} may not be read: the worker's file needs {self.key}=…")
        if not self.pattern.matches(key):
            raise UsageError(f"{key} may not be read: {self.key} does not match it")
        if key not in self.environ:
            raise UsageError(f"there is no variable {key} where the service runs")
        return self.environ[key]


def _make(name: str, properties: Mapping[str, str], environ: Mapping[str, str]) -> Provider:
    class_key = f"{PREFIX}.{name}.class"
    given = properties.get(class_key, "").strip()
    kind = given.removeprefix(PACKAGE)
    if kind not in CLASSES:
        known = ", ".join(PACKAGE + one for one in CLASSES)
        problem = f"{given} cannot run here" if given else "missing"
        raise ConfigErrors({class_key: f"{problem}; there are {known}"})
    param = f"{PREFIX}.{name}.param."
    takes = "allowlist.pattern" if kind == CLASSES[2] else "allowed.paths"
    params = [key for key in properties if key.startswith(param)]
    if others := [key for key in params if key != param + takes]:
        raise ConfigErrors(dict.fromkeys(others, f"is not a key of {kind}, which takes {takes}"))
    text = properties.get(param + takes, "").strip()
    if kind == CLASSES[2]:
        return EnvProvider(param + takes, _pattern(param + takes, text), environ)
    folders = Folders(param + takes, _paths(param + takes, text))
    return FileProvider(folders) if kind == CLASSES[0] else DirectoryProvider(folders)


def _paths(key: str, text: str) -> tuple[Path, ...]:
    try:
        named = [check_path(one.strip()) for one in text.split(",") if one.strip()]
    except UsageError as error:
        raise ConfigErrors({key: error.message}) from error
    paths = tuple(Path(os.path.normpath(path)) for path in named)
    for path in paths:
        if not path.is_absolute():
            raise ConfigErrors({key: f"{path} is not an absolute path"})
    return paths


def _pattern(key: str, text: str) -> JavaPattern | None:
    try:
        return compile_java_regex(text) if text else None
    except UsageError as error:
        raise ConfigErrors({key: error.message}) from error


def _unknown_keys(properties: Mapping[str, str], names: list[str]) -> dict[str, str]:
    wrong = {}
    for key in properties:
        if key.startswith(f"{PREFIX}."):
            name, _, rest = key.removeprefix(f"{PREFIX}.").partition(".")
            if name not in names:
                wrong[key] = f"{PREFIX} does not name {name}"
            elif rest != "class" and not rest.startswith("param."):
                wrong[key] = "there is no such key; there are .class and .param.…"
    return wrong


def _read(real: Path, shown: str) -> str:
    """Read a small regular file; ``real`` is resolved, so no link is followed."""
    try:
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{shown} is not a plain file")
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {_reason(error)}") from error
    if len(raw) > _MAX_BYTES:
        raise UsageError(f"{shown} is larger than {_MAX_BYTES} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{shown} is not UTF-8") from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or "its links lead in a circle"
