"""A story of REST calls that a real Connect worker answered, told again to any base URL.

``tests/golden/rest/story.json`` holds it. In its bodies and answers:

- ``{"+base": {…}}`` is the story's configuration with changes; null takes a key away;
- ``${NAME}`` in what is sent is a value of the caller's; in an answer it is any text,
  ``${INT}`` any number, ``${LIST}`` any list, ``${ANY}`` anything;
- ``{"+has": […]}`` is a list in which each of these is found, all of one shape;
- ``here`` says what is answered on purpose instead, and why.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

STORY = Path(__file__).parents[2] / "golden" / "rest" / "story.json"
_PLACE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class Difference:
    """What one call answered otherwise than the real worker."""

    number: int
    call: str
    what: str

    def __str__(self) -> str:
        return f"{self.number} {self.call}: {self.what}"


def load_story() -> dict[str, Any]:
    return json.loads(STORY.read_text())


def run_story(
    client: httpx.Client,
    values: Mapping[str, str],
    *,
    topics: tuple[str, str] = ("rg-a", "rg-b"),
    patience_s: float = 0,
    until: int | None = None,
) -> list[Difference]:
    """Make every call in order; return the differences, none when all is as it was.

    ``values`` are BUCKET, ENDPOINT, ACCESS_KEY and SECRET_KEY. The first topic has two partitions,
    the second one, and each partition three records. GETs are repeated for ``patience_s`` in all,
    since what a connector does takes a moment, there as here.
    """
    text = STORY.read_text().replace("rg-a", topics[0]).replace("rg-b", topics[1])
    story = json.loads(text)
    found: list[Difference] = []
    for number, call in enumerate(story["calls"][:until]):
        expected = _expand(call, story["base"])
        differences = _try(client, expected, values)
        while differences and call["call"].startswith("GET") and patience_s > 0:
            begun = time.monotonic()
            time.sleep(0.2)
            differences = _try(client, expected, values)
            patience_s -= time.monotonic() - begun
        found += [Difference(number, call["call"], what) for what in differences]
    return found


def _try(client: httpx.Client, call: dict[str, Any], values: Mapping[str, str]) -> list[str]:
    response = _send(client, call, values)
    return list(_compare(call, response, values))


def _send(client: httpx.Client, call: dict[str, Any], values: Mapping[str, str]) -> httpx.Response:
    method, _, url = call["call"].partition(" ")
    if "body" not in call:
        return client.request(method, url)
    body = call["body"]
    text = body if isinstance(body, str) else json.dumps(body)
    filled = _PLACE.sub(lambda place: values[place[1]], text)
    return client.request(method, url, content=filled, headers={"Content-Type": "application/json"})


def _compare(
    call: dict[str, Any], response: httpx.Response, values: Mapping[str, str]
) -> Iterator[str]:
    here = call.get("here", {})
    status = here.get("status", call["status"])
    if response.status_code != status:
        yield f"status {response.status_code}, not {status}: {response.text[:300]}"
        return
    if (kind := here.get("type", call["type"])) != response.headers.get("content-type", ""):
        yield f"type {response.headers.get('content-type')!r}, not {kind!r}"
    if response.headers.get("location") != call.get("location"):
        yield f"location {response.headers.get('location')!r}, not {call.get('location')!r}"
    if values["SECRET_KEY"] in response.text:
        yield "the secret key is shown"
    if call["answer"] is None:
        if response.content:
            yield f"a body: {response.text[:300]}"
        return
    answer = response.json()
    if status != call["status"]:  # an error on purpose: its words are ours, its shape is not
        yield from compare({"error_code": status, "message": "${TEXT}"}, answer)
    else:
        yield from compare(here.get("answer", call["answer"]), answer)


def _expand(value: Any, base: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"+base"}:
            changed = {**base, **value["+base"]}
            return {key: item for key, item in changed.items() if item is not None}
        return {key: _expand(item, base) for key, item in value.items()}
    return [_expand(item, base) for item in value] if isinstance(value, list) else value


def compare(expected: Any, answer: Any, path: str = "$") -> Iterator[str]:
    """Say where an answer has other keys, types or fixed values than the expected one."""
    if isinstance(expected, dict) and set(expected) == {"+has"}:
        yield from _compare_some(expected["+has"], answer, path)
    elif isinstance(expected, str):
        if not _fits(expected, answer):
            yield f"{path} is {answer!r}, not {expected!r}"
    elif type(expected) is not type(answer):
        yield f"{path} is {answer!r}, not {expected!r}"
    elif isinstance(expected, dict):
        yield from _compare_objects(expected, answer, path)
    elif isinstance(expected, list):
        yield from _compare_lists(expected, answer, path)
    elif expected != answer:
        yield f"{path} is {answer!r}, not {expected!r}"


def _fits(expected: str, answer: Any) -> bool:
    if expected == "${ANY}":
        return True
    if expected == "${INT}":
        return isinstance(answer, int)
    if expected == "${LIST}":
        return isinstance(answer, list)
    if not isinstance(answer, str):
        return False
    pattern = ".*".join(re.escape(part) for part in _PLACE.split(expected)[::2])
    return re.fullmatch(pattern, answer, re.DOTALL) is not None


def _compare_objects(expected: dict[str, Any], answer: dict[str, Any], path: str) -> Iterator[str]:
    missing, more = expected.keys() - answer.keys(), answer.keys() - expected.keys()
    if "connector" in expected:  # a status: docs/rest.md names what kafkeep adds to it
        more -= {"kafkeep"}
    if missing or more:
        yield f"{path} lacks {sorted(missing)} and has {sorted(more)} on top"
    for key in expected.keys() & answer.keys():
        yield from compare(expected[key], answer[key], f"{path}.{key}")


def _compare_lists(expected: list[Any], answer: list[Any], path: str) -> Iterator[str]:
    """Compare in any order: Connect's lists of offsets and topics have none."""
    if len(expected) != len(answer):
        yield f"{path} has {len(answer)} items, not {len(expected)}: {str(answer)[:300]}"
        return
    rest = list(answer)
    for number, item in enumerate(expected):
        fitting = next((other for other in rest if not list(compare(item, other))), None)
        if fitting is None:
            yield from compare(item, answer[number], f"{path}[{number}]")
        else:
            rest.remove(fitting)


def _compare_some(expected: list[Any], answer: Any, path: str) -> Iterator[str]:
    if not isinstance(answer, list):
        yield f"{path} is no list"
        return
    for item in expected:
        if all(list(compare(item, other)) for other in answer):
            near = [other for other in answer if _name_of(other) == _name_of(item)]
            told = list(compare(item, near[0], path)) if near else [f"{path} lacks {item}"]
            yield from told
    if isinstance(expected[0], dict):
        for number, other in enumerate(answer):
            if not isinstance(other, dict) or other.keys() != expected[0].keys():
                yield f"{path}[{number}] has another shape: {str(other)[:200]}"


def _name_of(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return item.get("class") or item.get("name") or item.get("definition", {}).get("name")
