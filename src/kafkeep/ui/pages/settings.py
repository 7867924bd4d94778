"""The settings: the worker's configuration with secrets masked, versions, links, licences."""

from __future__ import annotations

from starlette.responses import Response

from kafkeep.connect.worker.rest_security import Role
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


def examine(visit: Visit) -> Response:
    """Run the checks and show them; htmx gets them for the page that asked."""
    return visit.part("settings/checks.html", parts=visit.service.catalog.doctor.examine())


ROUTES = (
    PageRoute(path="/settings", run=show),
    PageRoute(path="/settings/doctor", run=examine, role=Role.OPERATE, method="POST"),
)
