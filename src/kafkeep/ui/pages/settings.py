"""The settings: the worker's configuration with secrets masked, versions, links, licences."""

from __future__ import annotations

from starlette.responses import Response

from kafkeep.ui.frame import NavLink, load_assets
from kafkeep.ui.visit import PageRoute, Visit

NAV = NavLink("Settings", "/settings", "s", "settings")


def show(visit: Visit) -> Response:
    """Show how the worker was started, and who the caller is."""
    return visit.page(
        "settings/page.html",
        title="Settings",
        settings=visit.service.settings(),
        assets=load_assets(),
    )


ROUTES = (PageRoute(path="/settings", run=show),)
