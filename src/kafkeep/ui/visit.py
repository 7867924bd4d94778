"""One request of a page as a value, and the routes that answer it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse, Response

from kafkeep.connect.rest.middleware import Caller
from kafkeep.connect.safety.secrets import mask
from kafkeep.connect.service.service import ConnectService
from kafkeep.connect.worker.rest_security import Role
from kafkeep.ui.frame import HEADERS, ROOT, Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """What a page needs to answer: the service, the caller and the decoded request."""

    service: ConnectService
    frame: Frame
    caller: Caller
    now_ms: int
    token: str = field(repr=False)
    """Goes into every form; see ``csrf.py``."""
    sees_secrets: bool = False
    route: str = ""
    """The path of the navigation entry that the page belongs to."""
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_htmx: bool = False

    @property
    def name(self) -> str:
        """The connector in the path."""
        return self.path["name"]

    def may(self, role: str) -> bool:
        """Return True when the caller has at least this role."""
        return self.caller.role is not None and self.caller.role >= Role[role.upper()]

    def shown(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return a configuration as this caller may see it."""
        return dict(config) if self.sees_secrets else mask(config)

    def fragment(self, template: str, **values: Any) -> str:
        """Return a part of a page."""
        return self.frame.render(template, {"visit": self, "now_ms": self.now_ms, **values})

    def page(self, template: str, *, title: str, http_status: int = 200, **values: Any) -> Response:
        """Return a whole page in the frame."""
        message = self.frame.messages.get(self.query.get("done", ""))
        html = self.fragment(template, title=title, message=message, **values)
        return HTMLResponse(html, http_status, dict(HEADERS))

    def part(self, template: str, **values: Any) -> Response:
        """Return a part of a page to htmx; to a browser without JavaScript, a page of its own."""
        html = self.fragment(template, **values)
        if not self.is_htmx:
            # The fragment was escaped when it was rendered.
            return self.page("part.html", title="kafkeep", content=Markup(html))
        return HTMLResponse(html, headers=dict(HEADERS))


def connector_path(name: str, more: str = "") -> str:
    """Return the address of a connector's page."""
    return f"{ROOT}/connectors/{quote(name, safe='')}{more}"


def see_other(path: str) -> Response:
    """Send the browser to a page after a change, so that reloading does not repeat the change."""
    return RedirectResponse(path, 303, dict(HEADERS))


Responder = Callable[[Visit], Response]
"""Answers a visit. It may block, so it runs in a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRoute:
    """One address of the console and the lowest role that may use it."""

    path: str
    run: Responder
    role: Role = Role.READ
    method: Literal["GET", "POST"] = "GET"
    is_change: bool = True
    """Of a POST: False when it changes nothing and so is not in the audit log."""
