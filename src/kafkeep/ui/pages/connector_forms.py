"""Create and edit connectors: a form from the declared keys beside the raw JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from kafkeep.connect.model import RestError, TargetState
from kafkeep.connect.plugins.presets import PRESETS, find_preset
from kafkeep.connect.rest.call import check_name
from kafkeep.connect.service import operations
from kafkeep.connect.worker.rest_security import Role
from kafkeep.ui.config_form import MODE, NAME, RAW, build_form, format_raw, parse_form
from kafkeep.ui.visit import PageRoute, Visit, connector_path, see_other

CLASS = "connector.class"

MESSAGES = {
    "created": "The connector was created.",
    "saved": "The configuration was saved. The connector runs with it from now on.",
    "unchanged": "The configuration is what it was. Nothing changed.",
}


def start(visit: Visit) -> Response:
    """Show the templates, or the form of the template or class that was chosen."""
    preset = find_preset(visit.query.get("template", ""))
    if preset is not None:
        return _form(visit, dict(preset.config), name="", is_new=True, with_errors=False)
    if chosen := visit.query.get("class", "").strip():
        return _form(visit, {CLASS: chosen}, name="", is_new=True, with_errors=False)
    plugins = visit.service.plugins(connectors_only=True)
    return visit.page(
        "connectors/new.html",
        title="New connector",
        presets=PRESETS,
        classes=[one["class"] for one in plugins],
    )


def edit(visit: Visit) -> Response:
    """Show the form of an existing connector."""
    config = visit.shown(visit.service.connector(visit.name).config)
    return _form(visit, config, name=visit.name, is_new=False, with_errors=False)


def check(visit: Visit) -> Response:
    """Validate what a form holds and show it again, as a form or as JSON. Changes nothing.

    htmx gets the verdict alone, with the errors of each field.
    """
    name, is_new = visit.form.get(NAME, "").strip(), visit.form.get("is_new") == "yes"
    try:
        config = parse_form(visit.form)
    except RestError as error:
        if visit.is_htmx:
            return visit.part("connectors/verdict.html", form=None, problem=error.message)
        return _unreadable(visit, name, is_new, error.message)
    mode = visit.form.get(MODE, "form")
    if visit.is_htmx:
        form = build_form(_validation(visit, config, name), config, with_errors=True)
        return visit.part("connectors/verdict.html", form=form, problem="", mode=mode)
    mode = visit.form.get("show") or mode
    return _form(visit, config, name=name, is_new=is_new, with_errors=True, mode=mode)


def create(visit: Visit) -> Response:
    """Create the connector; a wrong configuration is shown again with its errors."""
    name = visit.form.get(NAME, "").strip()
    try:
        config = parse_form(visit.form)
    except RestError as error:
        return _unreadable(visit, name, True, error.message)
    try:
        name = name or config.get("name", "")
        if not name:
            raise RestError(400, "A connector needs a name.")
        check_name(name)
        visit.service.change(operations.create, name, {**config, "name": name}, TargetState.RUNNING)
    except RestError as error:
        return _refused(visit, config, name, True, error)
    return see_other(connector_path(name, "?done=created"))


def save(visit: Visit) -> Response:
    """Save a changed configuration; masked values keep the stored secrets."""
    try:
        config = {**parse_form(visit.form), "name": visit.name}
    except RestError as error:
        return _unreadable(visit, visit.name, False, error.message)
    before = visit.service.connector(visit.name)
    try:
        after, _ = visit.service.change(operations.put_config, visit.name, config)
    except RestError as error:
        return _refused(visit, config, visit.name, False, error)
    done = "unchanged" if after.config == before.config else "saved"
    return see_other(connector_path(visit.name, f"/config?done={done}"))


def _validation(visit: Visit, config: Mapping[str, str], name: str) -> dict[str, Any]:
    plugin = config.get(CLASS, "").strip()
    if not plugin:
        raise RestError(400, "The configuration names no connector.class.")
    return visit.service.validate(plugin, {**config, "name": name})


def _refused(
    visit: Visit, config: Mapping[str, str], name: str, is_new: bool, error: RestError
) -> Response:
    if error.status not in (400, 409):
        raise error
    return _form(
        visit,
        config,
        name=name,
        is_new=is_new,
        with_errors=True,
        mode=visit.form.get(MODE, "form"),
        problem=error.message,
        status=error.status,
    )


def _unreadable(visit: Visit, name: str, is_new: bool, problem: str) -> Response:
    """Show a text that is no configuration as it was sent, with what is wrong."""
    return visit.page(
        "connectors/form.html",
        title=_title(name, is_new),
        http_status=400,
        form=None,
        raw=visit.form.get(RAW, ""),
        mode=RAW,
        name=name,
        is_new=is_new,
        problem=problem,
        class_name="",
    )


def _form(
    visit: Visit,
    config: Mapping[str, str],
    *,
    name: str,
    is_new: bool,
    with_errors: bool,
    mode: str = "form",
    problem: str = "",
    status: int = 200,
) -> Response:
    shown = {key: text for key, text in config.items() if key != "name"}
    try:
        form = build_form(_validation(visit, config, name), shown, with_errors=with_errors)
    except RestError as error:
        form, mode, problem = None, RAW, problem or error.message
    return visit.page(
        "connectors/form.html",
        title=_title(name, is_new),
        http_status=status,
        form=form,
        raw=format_raw({key: text for key, text in shown.items() if text or not is_new}),
        mode=RAW if mode == RAW else "form",
        name=name,
        is_new=is_new,
        problem=problem,
        class_name=config.get(CLASS, ""),
    )


def _title(name: str, is_new: bool) -> str:
    return "New connector" if is_new else f"Edit {name}"


ROUTES = (
    PageRoute(path="/new-connector", run=start, role=Role.ADMIN),
    PageRoute(path="/new-connector", run=create, role=Role.ADMIN, method="POST"),
    PageRoute(path="/check-config", run=check, role=Role.OPERATE, method="POST", is_change=False),
    PageRoute(path="/connectors/{name}/edit", run=edit, role=Role.ADMIN),
    PageRoute(path="/connectors/{name}/edit", run=save, role=Role.ADMIN, method="POST"),
)
