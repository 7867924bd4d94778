"""One call as the functions that answer it see it, and what the table of endpoints says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from starlette.responses import Response

from kafkeep.connect.model import RestError
from kafkeep.connect.rest.answers import plain_error
from kafkeep.connect.rest.security import Role
from kafkeep.connect.safety.secrets import mask
from kafkeep.connect.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request, decoded: what the path names, the query, and the body within its limit."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    role: Role | None = None
    """The caller's; None for one who did not say who they are."""
    sees_secrets: bool = False
    """Whether the caller sees configurations as they were sent."""

    def shown(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return what this caller may see of a configuration; references are no secrets."""
        return dict(config) if self.sees_secrets else mask(config)

    @property
    def name(self) -> str:
        """Return the connector the path names."""
        return self.path["connector"]

    @property
    def task(self) -> int:
        """Return the task the path names; 404 for what is no number, as Connect answers."""
        text = self.path["task"]
        if not (text.isascii() and text.isdigit()) or len(text) > 10 or int(text) >= 1 << 31:
            raise plain_error(404)
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a truth value of the query; 400 for anything but true and false."""
        values = self.query.get(name)
        if not values:
            return default
        value = values[0].lower()
        if value not in ("true", "false"):
            raise RestError(400, f"{name} must be true or false, not {values[0]!r}")
        return value == "true"


Run = Callable[[Service, Call], Response]
"""Answers a call. May block, so it runs in a thread unless it is known to be quick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A parameter of a query, and its JSON schema's type."""

    name: str
    help: str
    type: Literal["boolean", "string", "array"] = "boolean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method of one path. The OpenAPI document is made of these."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    """With ``{connector}``, ``{task}``, ``{plugin}``, ``{logger}`` where names stand."""
    role: Role | None
    """The least role that may call it; None for everyone, without credentials."""
    run: Run
    help: str
    answers: Mapping[int, str | None]
    """Success statuses → the schema of the body, None for no body."""
    body: str | None = None
    """The schema of the body that is needed."""
    query: tuple[Query, ...] = ()
    media_type: str = "application/json"
    quick: bool = False
    """Only looks at connectors: while that asks nobody, it is answered without a thread."""
