"""The pages of schemas, over a registry that answers and an archive that keeps its schemas."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.archive_builder import build_archive, partition
from tests.support.confluent_registry import ConfluentRegistry, serving
from tests.unit.ui.conftest import SCRIPT, Browser, ConsoleService

from kafkeep.archive.commit import Changes
from kafkeep.archive.schemas import save_schemas
from kafkeep.connect.catalog.archives.archives import ArchivePlace
from kafkeep.connect.catalog.registries import RegistryPlace
from kafkeep.connect.catalog.schemas import VERSIONS_SHOWN, compare_texts
from kafkeep.options.sink.converter_settings import RegistrySettings
from kafkeep.registry.client import Registry
from kafkeep.registry.schemas import RegistryReader
from kafkeep.store.open import open_store

STRANGE = "a/<b>\u202e"


def schema(*fields: str) -> str:
    listed = [{"name": name, "type": "int"} for name in fields]
    return json.dumps({"type": "record", "name": "Box", "fields": listed})


@dataclass
class Scene:
    registry: ConfluentRegistry
    service: ConsoleService


@pytest.fixture
def scene(service: ConsoleService, tmp_path: Path) -> Iterator[Scene]:
    """orders has versions 1 and 2 on both sides, and 3 in the registry; gone is archived only."""
    registry = ConfluentRegistry()
    with serving(registry) as url:
        registry.add("orders", schema("n"))
        registry.add("orders", schema("n", "m"))
        registry.add("gone", '"string"')
        registry.add(STRANGE, json.dumps({"type": "string", "doc": f"</pre>{SCRIPT}"}))
        store = open_store(str(tmp_path))
        built = build_archive(store, {"orders": [partition(0, 3)]})
        digest = save_schemas(store, "backup", RegistryReader(Registry((url,))).read())
        built.log.append(Changes(schemas=digest))
        del registry.subjects["gone"]
        registry.add("orders", schema("n", "o"), references=[])
        service.places.append(ArchivePlace(address=str(tmp_path), connectors=("sink",)))
        settings = RegistrySettings(urls=(url,))
        service.registries.append(
            RegistryPlace(address=url, settings=settings, connectors=("sink",))
        )
        yield Scene(registry, service)


@pytest.mark.usefixtures("scene")
def test_subjects_of_both_sides_are_listed(browser: Browser) -> None:
    page = browser.get("/ui/schemas")
    rows = page.partition("<tbody>")[2].split("<tr>")[1:]
    assert ["gone" in rows[1], "not registered" in rows[1]] == [True, True]
    assert ["orders" in rows[2], "registered" in rows[2]] == [True, True]
    assert STRANGE not in page
    assert "a/&lt;b&gt;\\u202e" in page.replace("<wbr>", "")
    assert "No subject has “nothing”" in browser.get("/ui/schemas?q=nothing")


@pytest.mark.usefixtures("scene")
def test_a_subject_shows_each_version_on_both_sides(browser: Browser) -> None:
    page = browser.get("/ui/schemas/orders")
    assert page.count("only in the registry") == 1
    assert "BACKWARD in the registry, BACKWARD in the archive" in page
    assert "Version 3 in the registry</h2>" in page
    old = browser.get("/ui/schemas/orders?show=archive:1")
    assert "Version 1 in the archive</h2>" in old
    gone = browser.get("/ui/schemas/gone")
    assert "only in the archive" in gone
    browser.get("/ui/schemas/orders?show=archive:3", 404)
    browser.get("/ui/schemas/orders?show=else", 400)
    browser.get("/ui/schemas/nobody", 404)


@pytest.mark.usefixtures("scene")
def test_two_versions_are_compared_line_by_line(browser: Browser) -> None:
    page = browser.get("/ui/schemas/orders?from=archive:2&to=registry:3")
    assert page.count('class="removed"') == 1
    assert page.count('class="added"') == 1
    assert "removed:" in page  # for those who see no colour
    same = browser.get("/ui/schemas/orders?from=archive:2&to=registry:2")
    assert "The texts are the same." in same
    lines = browser.client.get(
        "/kafkeep/v1/schemas/orders/diff", params={"from": "archive:2", "to": "registry:3"}
    ).json()["lines"]
    assert [line for line in lines if line[0] in "+-"] == [
        '-      "name": "m",',
        '+      "name": "o",',
    ]


@pytest.mark.usefixtures("scene")
def test_a_hostile_text_stays_text(browser: Browser) -> None:
    listed = browser.get("/ui/schemas")
    link = listed.partition('href="/ui/schemas/~')[2].partition('"')[0]
    page = browser.get(f"/ui/schemas/~{link}")
    assert SCRIPT not in page
    assert "&lt;/pre&gt;&lt;script&gt;" in page


def test_the_archive_is_shown_while_the_registry_is_away(browser: Browser, scene: Scene) -> None:
    scene.registry.down = True
    page = browser.get("/ui/schemas")
    assert "The registry cannot be read: " in page
    assert "orders" in page
    subject = browser.get("/ui/schemas/orders")
    assert "Version 2 in the archive" in subject
    assert "only in" not in subject


def test_an_old_version_is_asked_for_once(browser: Browser, scene: Scene) -> None:
    browser.get("/ui/schemas/orders")
    scene.registry.asked.clear()
    browser.get("/ui/schemas/orders")
    versions = [one for one in scene.registry.asked if one.startswith("GET /subjects/orders/v")]
    assert versions == [
        "GET /subjects/orders/versions",
        "GET /subjects/orders/versions",
        "GET /subjects/orders/versions/3",
    ]


def test_without_a_registry_the_page_says_how_to_name_one(browser: Browser) -> None:
    page = browser.get("/ui/schemas")
    assert "schema.registry=http://registry.example:8081" in page
    assert "<table" not in page
    browser.get("/ui/schemas/orders", 404)
    browser.get("/ui/schemas?registry=unknown", 404)


@pytest.mark.usefixtures("scene")
def test_scripts_read_the_same(browser: Browser) -> None:
    listed = browser.client.get("/kafkeep/v1/schemas", params={"search": "ORD"}).json()
    assert listed["total"] == 1
    assert listed["log"]["log"] == "backup"
    one = browser.client.get("/kafkeep/v1/schemas/orders").json()
    assert [row["verdict"] for row in one["versions"]] == ["only in the registry", "same", "same"]
    assert one["versions"][1]["archive"]["schema"] == schema("n", "m")
    assert one["compatibility"] == {"registry": "BACKWARD", "archive": "BACKWARD"}


def test_texts_that_take_too_long_are_not_compared() -> None:
    assert compare_texts("a\n" * 3001, "b") is None
    found = compare_texts("a\nb\nc", "a\nB\nc")
    assert found is not None
    assert [(line.sign, line.text) for line in found] == [
        ("@", "from line 1"),
        (" ", "a"),
        ("-", "b"),
        ("+", "B"),
        (" ", "c"),
    ]


def test_every_version_is_reached_page_by_page_and_compared(browser: Browser, scene: Scene) -> None:
    for number in range(42):  # after the first three
        scene.registry.add("orders", schema("n", f"f{number}"))
    first = browser.get("/ui/schemas/orders")
    assert first.count('in the registry">registry</a>') == VERSIONS_SHOWN
    [second] = re.findall(r'rel="next" href="([^"]+)"', first)
    [third] = re.findall(r'rel="next" href="([^"]+)"', browser.get(html.unescape(second)))
    last = browser.get(html.unescape(third))
    assert "Version 1</th>" in last
    [link] = re.findall(r'href="([^"]+)" aria-label="Text of version 2 in the registry"', last)
    assert "Version 2 in the registry</h2>" in browser.get(html.unescape(link))
    far = browser.get("/ui/schemas/orders?from=archive:1&to=registry:45")
    assert 'class="added"' in far
    assert "Version 1 in the archive → Version 45 in the registry" in far
    rest = browser.client.get("/kafkeep/v1/schemas/orders", params={"start": "40"}).json()
    assert [one["version"] for one in rest["versions"]] == [5, 4, 3, 2, 1]
    assert rest["older_versions"] == 0
    lines = browser.client.get(
        "/kafkeep/v1/schemas/orders/diff", params={"from": "archive:1", "to": "registry:45"}
    ).json()["lines"]
    assert any("f41" in line for line in lines)
