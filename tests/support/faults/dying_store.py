"""A store whose user dies while it uploads."""

from __future__ import annotations

from typing import Any

from kafkeep.store.memory import MemoryStore


class Died(Exception):
    """The machine of a task went away."""


class MortalStore(MemoryStore):
    """Dies at an upload, before or after the object is there."""

    lives: int | None = None
    stores_first = False

    def put_new(self, key: str, *rest: Any, **more: Any) -> None:
        if self.lives is None:
            return super().put_new(key, *rest, **more)
        self.lives -= 1
        if self.lives >= 0 or self.stores_first:
            super().put_new(key, *rest, **more)
        if self.lives < 0:
            raise Died
        return None

    def everything(self) -> dict[str, tuple[bytes, object]]:
        return {info.key: (self.get(info.key), info) for info in self.list("")}
