"""Where compiled kernels are cached: by what they compute, not by where their source lies.

numba names the folder of a cached function by the path of its source. A package that is copied to
another folder, as an environment that is shipped to executors, would compile everything again.
Here the name is a digest of the source and of all that it uses. numba itself tells versions of
Python, of numba and kinds of processors apart inside the folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

_PACKAGE = Path(__file__).parent


class _ContentLocator(_CacheLocator):  # type: ignore[misc]
    """Locates a function by the digest of everything that its machine code depends on."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._line = function.__code__.co_firstlineno
        self._digest = _digest(function)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], _file: str) -> _ContentLocator:
        return cls(py_func)

    def get_cache_path(self) -> str:
        return str(_folder_of(self._digest))

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return str(self._line)


class _KernelCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_ContentLocator,)


class NotCompiledError(Exception):
    """A kernel is not in the cache, and nobody wants to wait until it is compiled."""


_is_read_only = False


@contextmanager
def cached_kernels_only() -> Iterator[None]:
    """Raise NotCompiledError, in any thread, where the body would compile a kernel."""
    global _is_read_only  # noqa: PLW0603
    _is_read_only = True
    try:
        yield
    finally:
        _is_read_only = False


class KernelCache(FunctionCache):  # type: ignore[misc]
    """The cache of one kernel. One that cannot be written is used as it is."""

    _impl_class = _KernelCacheImpl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return compiled code, or None if it is not there and may be compiled."""
        found = super().load_overload(sig, target_context)
        if found is None and _is_read_only:
            raise NotCompiledError
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store compiled code where others find it, if that is possible."""
        with suppress(OSError):
            super().save_overload(sig, data)


def _folder_of(digest: str) -> Path:
    """Return the first folder that has this kernel; if there is none, the first for a new one."""
    folders = [base / digest for base in _bases()]
    filled = (folder for folder in folders if folder.is_dir())
    return next(filled, None) or _writable_base() / digest


def _bases() -> tuple[Path, ...]:
    """Return the folders for kernels, in the order of search.

    The first is in the package, and travels with it. Executors often run from a read-only folder,
    or as a user without a home.
    """
    for variable in ("NUMBA_CACHE_DIR", "KAFKEEP_CACHE"):
        if wanted := os.environ.get(variable):
            return (Path(wanted) / "numba",)
    home = Path(os.path.expanduser("~")) / ".cache" / "kafkeep"
    return (_PACKAGE / "__pycache__" / "numba", home / "numba")


@cache
def _writable_base() -> Path:
    for base in _bases():
        if _is_writable(base):
            return base
    # A cache is code: never use a folder under /tmp that another user could have created.
    return Path(tempfile.mkdtemp(prefix="kafkeep-numba-"))


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _digest(function: Callable[..., Any]) -> str:
    """Return a name that changes with a kernel, and with the functions and constants it uses."""
    files = {function.__code__.co_filename}
    constants: list[str] = []
    waiting, seen = [function], {function}
    while waiting:
        one = waiting.pop()
        for name in _names(one.__code__):
            value = one.__globals__.get(name)
            called = getattr(value, "py_func", getattr(value, "_defn", None))
            if isinstance(called, FunctionType) and called not in seen:
                seen.add(called)
                waiting.append(called)
                files.add(called.__code__.co_filename)
            elif isinstance(value, int | float | str | bytes | tuple):
                constants.append(f"{name}={value!r}")
            elif isinstance(value, np.ndarray):
                constants.append(f"{name}={sha256(value.tobytes()).hexdigest()}")
    parts = [*sorted(_file_digest(file) for file in files), *sorted(set(constants))]
    return sha256("\0".join(parts).encode()).hexdigest()[:16]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


@cache
def _file_digest(file: str) -> str:
    return sha256(Path(file).read_bytes()).hexdigest()
