"""The pages of the console. A new page is a module beside this one and a line here."""

from __future__ import annotations

from kafkeep.ui.pages import connector_actions, connector_forms, connectors, overview, settings

NAVIGATION = (overview.NAV, connectors.NAV, settings.NAV)
"""In the order of the navigation."""
ROUTES = (
    *overview.ROUTES,
    *connectors.ROUTES,
    *connector_actions.ROUTES,
    *connector_forms.ROUTES,
    *settings.ROUTES,
)
LIVE = {
    "overview": overview.live,
    "connectors": connectors.list_live,
    "connector": connectors.detail_live,
}
"""What ``/ui/events?page=…`` sends: the page's parts, rendered again."""
MESSAGES = {**connector_actions.MESSAGES, **connector_forms.MESSAGES}
"""What a page says after a change, by the ``done`` of its address. Only these can be shown."""
