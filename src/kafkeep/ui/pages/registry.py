"""The pages of the console. A new page is a module beside this one and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkeep.ui.frame import NavLink
from kafkeep.ui.pages import (
    archive,
    checks,
    connector_forms,
    connector_offsets,
    connectors,
    group_moves,
    groups,
    messages,
    overview,
    restore_wizard,
    restores,
    schemas,
    settings,
    topics,
)
from kafkeep.ui.visit import PageRoute, Visit

_PAGES: tuple[Any, ...] = (
    overview,
    connectors,
    connector_forms,
    connector_offsets,
    topics,
    messages,
    groups,
    group_moves,
    archive,
    restores,
    restore_wizard,
    checks,
    schemas,
    settings,
)
"""Each has ``ROUTES``, and may have ``NAV``, ``LIVE`` and ``MESSAGES``."""
_ORDER = (
    *("/", "/connectors", "/topics", "/archive", "/restores"),
    *("/groups", "/schemas", "/drills", "/settings"),
)

NAVIGATION: tuple[NavLink, ...] = tuple(
    sorted(
        (page.NAV for page in _PAGES if hasattr(page, "NAV")),
        key=lambda link: _ORDER.index(link.path),
    )
)
"""In the order of the navigation. Shortcuts: o c t a r g m d s."""
ROUTES: tuple[PageRoute, ...] = tuple(route for page in _PAGES for route in page.ROUTES)
LIVE: Mapping[str, Callable[[Visit], dict[str, str]]] = {
    name: render for page in _PAGES for name, render in getattr(page, "LIVE", {}).items()
}
"""What ``/ui/events?page=…`` sends: the page's parts, rendered again."""
MESSAGES: Mapping[str, str] = {
    name: text for page in _PAGES for name, text in getattr(page, "MESSAGES", {}).items()
}
"""What a page says after a change, by the ``done`` of its address. Only these can be shown."""
