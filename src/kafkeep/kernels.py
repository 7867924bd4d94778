"""Compiled functions that load their compiler when one of them is first called.

Importing numba takes a quarter of a second. Most processes import modules with kernels and call
none: Spark's driver, and the commands that read a little.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, Literal, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
_Kind = Literal["kernel", "inlined", "intrinsic"]


class _LazyModule:
    """A module that is imported when one of its names is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


def lazy_module(name: str) -> Any:
    """Return a stand-in for a module of the compiler, for the bodies of intrinsics."""
    return _LazyModule(name)


class DeclaredKernel:
    """A function to compile, until the compiler is loaded.

    Then what was compiled takes its place in the modules that have it, and it passes calls on.
    """

    def __init__(
        self, function: Callable[..., Any], kind: _Kind, plain: Callable[..., Any] | None = None
    ) -> None:
        update_wrapper(self, function)
        self.py_func = self._defn = function  # as what is compiled names it
        self.kind = kind
        self.plain = plain
        self.compiled: Any = None

    def __call__(self, *args: Any) -> Any:
        if _is_plain and not _is_loaded and self.plain is not None:
            return self.plain(*args)
        return self._load()(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._load(), name)

    def _load(self) -> Any:
        if not _is_loaded:
            _load_all()
        return self.compiled


_declared: list[DeclaredKernel] = []
_loading = threading.RLock()
_is_loaded = False
_is_plain = False


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Let the body run kernels as Python, which takes 50 µs for a record, but no time to begin.

    Without effect once the compiler is loaded. Not for kernels with intrinsics that only a compiler
    understands, and not where other threads call kernels.
    """
    global _is_plain  # noqa: PLW0603
    _is_plain = True
    try:
        with np.errstate(over="ignore"):  # compiled numbers wrap around
            yield
    finally:
        _is_plain = False


def kernel(function: F) -> F:
    """Compile ``function`` at its first call and cache the result on disk."""
    return cast(F, _declare(function, "kernel", plain=function))


def inlined(function: F) -> F:
    """Compile ``function`` into each kernel that calls it.

    For functions that read a few bytes: a call takes as long as the work, because it counts
    references to its arrays.
    """
    return cast(F, _declare(function, "inlined", plain=function))


def intrinsic(
    *, plain: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let kernels call machine instructions: the function returns their types and emits them.

    ``plain`` does the same in Python.
    """
    return lambda function: cast(Callable[..., Any], _declare(function, "intrinsic", plain=plain))


def _declare(function: Callable[..., Any], kind: _Kind, *, plain: Callable[..., Any] | None) -> Any:
    with _loading:
        if _is_loaded:
            _replace_in(_globals_of(function))
            return _compiled(function, kind)
        _declared.append(DeclaredKernel(function, kind, plain))
        return _declared[-1]


def _load_all() -> None:
    """Load numba, and put what it compiles in the place of everything that was declared."""
    global _is_loaded  # noqa: PLW0603 - one process has one compiler
    with _loading:
        if _is_loaded:
            return
        for one in _declared:
            one.compiled = _compiled(one.py_func, one.kind)
        for names in _namespaces():
            _replace_in(names)
        _declared.clear()
        _is_loaded = True


def _compiled(function: Callable[..., Any], kind: _Kind) -> Any:
    import numba  # noqa: PLC0415 - this is what takes long
    import numba.extending  # noqa: PLC0415

    from kafkeep.kernel_cache import KernelCache  # noqa: PLC0415

    if kind == "intrinsic":
        return numba.extending.intrinsic(function)
    if kind == "inlined":
        return numba.njit(inline="always", nogil=True)(function)
    compiled = numba.njit(nogil=True)(function)
    compiled._cache = KernelCache(function)
    return compiled


def _namespaces() -> Iterable[dict[str, Any]]:
    """Return the names of each module that may have something that was declared."""
    found = {id(names): names for names in (_globals_of(one.py_func) for one in _declared)}
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and module.__name__.startswith("kafkeep."):
            found[id(vars(module))] = vars(module)
    return found.values()


def _globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    return cast(FunctionType, function).__globals__


def _replace_in(names: dict[str, Any]) -> None:
    for name, value in list(names.items()):
        if isinstance(value, DeclaredKernel) and value.compiled is not None:
            names[name] = value.compiled
