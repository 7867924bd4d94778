"""A stand-in for Confluent's registry, in memory: theirs is not in the package registries.

Its rules are those that users of its API know, and were not held against the real one:
ids belong to texts; a subject takes ids and versions only in IMPORT mode, and leaves it by DELETE;
soft-deleted versions show with ``deleted=true``; a subject without a level answers 404.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Reply = tuple[int, Any]
NOT_FOUND: Reply = (404, {"error_code": 40401})


class ConfluentRegistry:
    """What it holds, for tests to look at and to change."""

    def __init__(self, first_id: int = 1) -> None:
        self.next_id = first_id
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, dict[int, dict[str, Any]]] = {}
        self.levels: dict[str, str] = {"": "BACKWARD"}
        self.modes: dict[str, str] = {}
        self.asked: list[str] = []
        self.down = False
        self._lock = threading.Lock()

    def add(self, subject: str, text: str, **more: Any) -> int:
        """Register by hand."""
        status, told = self._post_version(subject, {"schema": text, **more})
        assert status == 200, told
        return int(told["id"])

    def answer(self, method: str, target: str, body: Any) -> Reply:  # noqa: PLR0911
        """Answer one request."""
        with self._lock:
            parts = urlsplit(target)
            self.asked.append(f"{method} {parts.path}")
            if self.down:
                return 503, {}
            deleted = parse_qs(parts.query).get("deleted") == ["true"]
            match [method, *map(unquote, parts.path.strip("/").split("/"))]:
                case ["GET", "subjects"]:
                    return 200, [n for n in self.subjects if self._versions(n, deleted)]
                case ["GET", "subjects", name, "versions"]:
                    found = self._versions(name, deleted)
                    return (200, sorted(found)) if found else NOT_FOUND
                case ["GET", "subjects", name, "versions", number]:
                    found = self._versions(name, deleted)
                    return self._tell(name, int(number)) if int(number) in found else NOT_FOUND
                case ["POST", "subjects", name, "versions"]:
                    return self._post_version(name, body)
                case ["POST", "subjects", name]:
                    number = self._find(name, body)
                    return self._tell(name, number) if number else NOT_FOUND
                case ["GET", "schemas", "ids", id] if int(id) in self.schemas:
                    return 200, self.schemas[int(id)]
                case ["DELETE", "subjects", name, "versions", number]:
                    self.subjects[name][int(number)]["deleted"] = True
                    return 200, int(number)
                case [_, "config" | "mode" as what, *name]:
                    return self._setting(method, what, "".join(name), body)
            return NOT_FOUND

    def _versions(self, name: str, deleted: bool) -> dict[int, dict[str, Any]]:
        found = self.subjects.get(name, {})
        return {n: one for n, one in found.items() if deleted or not one["deleted"]}

    def _tell(self, name: str, number: int) -> Reply:
        id = self.subjects[name][number]["id"]
        return 200, {"subject": name, "version": number, "id": id, **self.schemas[id]}

    def _find(self, name: str, body: dict[str, Any]) -> int | None:
        for number, one in self._versions(name, False).items():
            if self.schemas[one["id"]] == _bare(body):
                return number
        return None

    def _post_version(self, name: str, body: dict[str, Any]) -> Reply:
        imports = self.modes.get(name) == "IMPORT"
        if ("id" in body) != imports:
            return 422, {"error_code": 42205, "message": f"Subject {name} is not in import mode"}
        for one in body.get("references", []):
            if one["version"] not in self.subjects.get(one["subject"], {}):
                return 422, {"message": f"no reference {one}"}
        known = self._find(name, body)
        if known and not imports:
            return 200, {"id": self.subjects[name][known]["id"]}
        same = [id for id, schema in self.schemas.items() if schema == _bare(body)]
        id = body.get("id") or (same[0] if same else self.next_id)
        if self.schemas.setdefault(id, _bare(body)) != _bare(body):
            return 422, {"message": f"Overwrite new schema with id {id} is not permitted."}
        self.next_id = max(self.next_id, id + 1)
        versions = self.subjects.setdefault(name, {})
        number = body.get("version") or max(versions, default=0) + 1
        versions[number] = {"id": id, "deleted": False}
        return 200, {"id": id}

    def _setting(self, method: str, what: str, name: str, body: Any) -> Reply:
        kept = self.levels if what == "config" else self.modes
        said = "compatibility" if what == "config" else "mode"
        if method == "PUT":
            kept[name] = body[said]
            return 200, body
        if method == "DELETE":
            kept.pop(name, None)
            return 200, {}
        if not name and what == "mode":
            return 200, {"mode": "READWRITE"}
        shown = "compatibilityLevel" if what == "config" else "mode"
        return (200, {shown: kept[name]}) if name in kept else NOT_FOUND


def _bare(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in ("id", "version")}


@contextmanager
def serving(registry: ConfluentRegistry) -> Iterator[str]:
    """Serve it on this machine; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            told = self.rfile.read(size)
            status, answer = registry.answer(
                self.command, self.path, json.loads(told) if told else None
            )
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _do

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
