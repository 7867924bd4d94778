"""What lies in deploy/, read as Docker, Compose and kafkeep read it."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml
from typer.main import get_command

from kafkeep.cli.main import app
from kafkeep.connect.worker.options import WorkerOptions

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = [DEPLOY / "compose.yaml", DEPLOY / "sinetstream" / "compose.yaml"]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)(?::?([-?])([^{}]*))?\}")


def _filled(value: Any, given: dict[str, str]) -> Any:
    """Fill variables in as Compose does, with what ``given`` has or their defaults."""
    if isinstance(value, dict):
        return {key: _filled(one, given) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, given) for one in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda m: given.get(m[1]) or (m[3] if m[2] == "-" else ""), value)
    return value


def load_compose(path: Path, given: dict[str, str] | None = None) -> dict[str, Any]:
    """Read a Compose file with the variables given."""
    return _filled(yaml.safe_load(path.read_text()), given or {})


def started_services(services: dict[str, Any], profile: str | None = None) -> dict[str, Any]:
    """Return the services that ``docker compose up`` starts, with a profile or without."""
    return {n: s for n, s in services.items() if profile in s.get("profiles", [profile])}


def instructions(text: str) -> dict[str, list[str]]:
    """Return the lines of a Dockerfile by their instruction."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            found[name].append(rest.strip())
    return found


def image_environment() -> dict[str, str]:
    """Return what the image sets."""
    words = [word for line in instructions(DOCKERFILE)["ENV"] for word in shlex.split(line)]
    return dict(word.split("=", 1) for word in words)


def worker_of(service: dict[str, Any]) -> WorkerOptions:
    """Load the worker that a Compose service of ours would be."""
    environ = {**image_environment(), **{k: str(v) for k, v in service["environment"].items()}}
    return WorkerOptions.load(DEPLOY / "worker.properties", environ)


def check_command(words: list[str]) -> None:
    """Check that a command line has a verb and flags there are."""
    assert words[0] == "kafkeep"
    command = get_command(app).commands[words[1]]
    known = {flag for parameter in command.params for flag in parameter.opts}
    assert {word for word in words[2:] if word.startswith("--")} <= known
