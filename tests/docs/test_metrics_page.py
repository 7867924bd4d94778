"""The metrics page, the dashboard and the alerts name existing metrics, and all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.promql import groupings, selectors

from kafkeep.connect.metrics.page import ALL

ROOT = Path(__file__).parents[2]
BOARD = json.loads((ROOT / "deploy/grafana/kafkeep.json").read_text())
RULES = yaml.safe_load((ROOT / "deploy/alerts/kafkeep.yaml").read_text())
PAGE = (ROOT / "docs/metrics.md").read_text()
PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
"""Metrics of prometheus_client itself."""
ADDED = {"job", "instance"}
"""Labels that Prometheus adds."""


def series() -> dict[str, set[str]]:
    """Return every possible series with its labels."""
    found: dict[str, set[str]] = {name: set() for name in PROCESS}
    for metric in ALL:
        labels = set(metric.labels)
        if metric.kind in ("histogram", "summary"):
            found[f"{metric.name}_count"] = found[f"{metric.name}_sum"] = labels
            found[f"{metric.name}_bucket"] = labels | {"le"}
        else:
            found[metric.name] = labels
    return found


def panels(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in node.get("panels", []):
        yield panel
        yield from panels(panel)


def rules() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    for panel in panels(BOARD):
        for target in panel.get("targets", []):
            yield f"panel {panel['title']}", target["expr"]
    for rule in rules():
        yield f"alert {rule['alert']}", rule["expr"]


def rows(page: str) -> list[list[str]]:
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize(("where", "expression"), list(expressions()), ids=lambda one: one[:40])
def test_every_query_uses_existing_series_and_labels(where: str, expression: str) -> None:
    known = series()
    asked = selectors(expression)
    assert asked, where
    for name, labels in asked.items():
        assert name in known, f"{where}: {name}"
        assert labels <= known[name] | ADDED, f"{where}: {name}{labels}"
    reachable = set().union(*(known[name] for name in asked)) | ADDED
    assert groupings(expression) <= reachable, where


def test_dashboard_panels_do_not_overlap_and_have_unique_ids_and_a_datasource() -> None:
    everything = list(panels(BOARD))
    assert len({panel["id"] for panel in everything}) == len(everything) > 20
    taken: set[tuple[int, int]] = set()
    for panel in everything:
        box = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(box["x"], box["x"] + box["w"])
            for y in range(box["y"], box["y"] + box["h"])
        }
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells), panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["fieldConfig"] is not None
            assert [t["refId"] for t in panel["targets"]] == sorted(
                {t["refId"] for t in panel["targets"]}
            )


def test_the_dashboard_uses_exactly_the_variables_it_declares() -> None:
    variables = {one["name"]: one for one in BOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    text = json.dumps(BOARD)
    used = set(re.findall(r"\$\{?([a-zA-Z][a-zA-Z_]*)\}?", text))
    assert used == set(variables)
    asked = [one["definition"] for one in variables.values() if one["type"] == "query"]
    names = {re.match(r"label_values\((\w+)", query)[1] for query in asked}  # type: ignore[index]
    assert names <= set(series())


def test_the_dashboard_shows_every_metric_of_kafkeep() -> None:
    shown = {name for where, text in expressions() if "panel" in where for name in selectors(text)}
    shown |= {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown}
    own = {metric.name for metric in ALL if metric.name.startswith("kafkeep_")}
    assert own <= shown


def test_every_alert_has_a_severity_a_duration_and_a_description() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical"), rule["alert"]
        assert rule["annotations"]["summary"] and rule["annotations"]["description"]
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "0m")), rule["alert"]
        used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert used <= groupings(rule["expr"]), f"{rule['alert']} uses labels it does not have"


def test_the_page_lists_every_metric_with_its_labels_and_no_other() -> None:
    listed = {row[0].strip("`"): row[1] for row in rows(PAGE) if row[0].startswith("`")}
    assert listed.pop("process_*") == ""
    assert listed == {metric.name: ", ".join(metric.labels) for metric in ALL}


def test_the_page_lists_the_alerts_of_each_metric() -> None:
    listed = {
        (row[0].strip("`"), alert)
        for row in rows(PAGE)
        if row[0].startswith("`") and row[3]
        for alert in row[3].split(", ")
    }
    names = {metric.name for metric in ALL}
    used = {
        (name if name in names else re.sub(r"_(bucket|count|sum)$", "", name), rule["alert"])
        for rule in rules()
        for name in selectors(rule["expr"])
    }
    assert listed == used


def test_the_page_lists_every_alert() -> None:
    listed = [row[0] for row in rows(PAGE.split("## The alerts")[1]) if row[0] != "alert"]
    assert listed == [rule["alert"] for rule in rules()]
