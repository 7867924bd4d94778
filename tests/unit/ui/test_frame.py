"""Vendored files, live streams, forms and numbers of the console."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections.abc import Mapping

import pytest
from tests.unit.ui.conftest import GOOD, Browser, ConsoleService

from kafkeep.connect.model import RestError, TargetState
from kafkeep.connect.plugins.presets import PRESETS
from kafkeep.connect.plugins.validate import validate
from kafkeep.ui import display
from kafkeep.ui.config_form import build_form, parse_form
from kafkeep.ui.events import LiveStreams, format_event
from kafkeep.ui.frame import STATIC, field_id, load_assets
from kafkeep.ui.pages.registry import NAVIGATION


def test_vendored_files_have_their_hash_and_licence() -> None:
    assets = load_assets()
    assert {one.file for one in assets} == {
        one.name for one in (STATIC / "vendor").iterdir() if one.suffix in (".js", ".css")
    }
    for one in assets:
        digest = hashlib.sha384((STATIC / "vendor" / one.file).read_bytes()).digest()
        assert one.integrity == "sha384-" + base64.b64encode(digest).decode(), one.file
        assert (STATIC / "vendor" / one.licence_file).read_text().strip()
        assert one.version
        assert one.licence


def test_each_page_of_the_navigation_has_its_own_shortcut_and_an_icon() -> None:
    shortcuts = [link.shortcut for link in NAVIGATION]
    assert len(set(shortcuts)) == len(shortcuts)
    icons = (STATIC / "icons.svg").read_text()
    for link in NAVIGATION:
        assert f'<symbol id="{link.icon}"' in icons


def test_static_files_are_revalidated(browser: Browser) -> None:
    answer = browser.client.get("/ui/static/console.css")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-type"].startswith("text/css")
    etag = answer.headers["etag"]
    again = browser.client.get("/ui/static/console.css", headers={"If-None-Match": etag})
    assert again.status_code == 304
    assert browser.client.get("/ui/static/..%2fapp.py").status_code == 404


def test_a_stream_sends_the_parts_of_its_page(service: ConsoleService, browser: Browser) -> None:
    service.create("orders", GOOD, TargetState.RUNNING)
    with browser.client.stream("GET", "/ui/events?page=overview") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        seen = ""
        for chunk in answer.iter_text():
            seen += chunk
            if "event: rows" in seen:
                break
    assert "retry: 1000" in seen
    assert "event: health" in seen
    assert "event: cards" in seen
    browser.get("/ui/events?page=none", 404)


def test_a_stream_sends_what_changed_and_ends_when_it_is_closed() -> None:
    shown = [{"a": "1", "b": "1"}, {"a": "1", "b": "2"}]

    async def read() -> Mapping[str, str]:
        if len(shown) == 1:
            streams.close()
        return shown.pop(0)

    async def collect() -> bytes:
        return b"".join([chunk async for chunk in streams._stream(read)])

    streams = LiveStreams(every_s=0.01)
    began = time.monotonic()
    sent = asyncio.run(collect())
    assert sent.count(b"event: a") == 1
    assert sent.count(b"event: b") == 2
    assert time.monotonic() - began < 5
    with pytest.raises(RestError):
        streams.respond(read)


def test_an_event_of_several_lines_is_one_event() -> None:
    assert format_event("rows", "a\nb") == b"event: rows\ndata: a\ndata: b\n\n"
    assert format_event("rows", "") == b"event: rows\ndata:\n\n"


@pytest.mark.parametrize("preset", PRESETS, ids=lambda one: one.id)
def test_a_preset_is_valid_once_its_empty_keys_are_filled_in(preset: object) -> None:
    config = {key: text or "topic-a" for key, text in preset.config.items()}  # type: ignore[attr-defined]
    answer = validate(config["connector.class"], {**config, "name": "n"})
    wrong = [one["value"] for one in answer["configs"] if one["value"]["errors"]]
    assert wrong == []


def test_required_keys_come_first_and_keys_without_a_field_are_lines() -> None:
    config = {**GOOD, "transforms.a.type": "x=y"}
    form = build_form(validate(GOOD["connector.class"], config), config, with_errors=True)
    first = [field.key for field in form.essential]
    assert first[:2] == ["topics", "s3.bucket.name"]
    assert "flush.size" in first
    assert form.other == "transforms.a.type=x=y"
    sent = {f"key:{field.key}": field.value for field in form.fields}
    sent |= {"key:connector.class": GOOD["connector.class"], "other": form.other}
    assert parse_form(sent) == config
    with pytest.raises(RestError, match="Line 1"):
        parse_form({"other": "no equals sign"})


def test_ids_of_different_keys_differ() -> None:
    assert field_id("a.b") != field_id("a-b")
    assert field_id("ä") == "_e4"


def test_numbers_are_short() -> None:
    assert [display.format_short(n) for n in (0, 950, 999.6, 1200, 33e6, None)] == [
        *("0", "950", "1.0k", "1.2k", "33M", "n/a"),
    ]
    assert display.format_bytes(1536) == "1.5 KiB"
    assert [display.format_duration(n) for n in (0.2, 12, 180, 7200, 200_000)] == [
        *("0 s", "12 s", "3 min", "2 h", "2 d"),
    ]
    assert display.format_ago(None, 0) == "never"
    assert display.format_utc(0) == "1970-01-01 00:00:00 UTC"
