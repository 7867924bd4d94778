"""The schema registry: Apicurio, which speaks Confluent's API."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from kafkeep.dev.downloads import registry_home
from kafkeep.dev.process import HOST, Server, launch
from kafkeep.dev.state import DevState
from kafkeep.options.spark import require_java


def registry_url(port: int) -> str:
    """Return where Confluent's API is."""
    return f"http://{HOST}:{port}/apis/ccompat/v7"


def launch_registry(folder: Path, state: DevState) -> Server:
    """Start the registry's process; its data is a database file under ``registry/``."""
    home, data = registry_home(), folder / "registry"
    data.mkdir(exist_ok=True)
    settings = {
        "quarkus.http.host": HOST,
        "quarkus.http.port": str(state.ports["registry"]),
        "quarkus.http.insecure-requests": "enabled",
        "quarkus.datasource.jdbc.url": f"jdbc:h2:file:{data}/registry",
        "user.home": str(data),
    }
    argv = [require_java(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    argv += [f"-D{key}={value}" for key, value in settings.items()]
    argv += ["-jar", str(next(home.glob("*-runner.jar")))]
    return launch("registry", argv, log=folder / "registry.log", mark=data, cwd=folder)


def registry_answers(port: int) -> bool:
    """Say whether the registry lists its subjects."""
    try:
        with urllib.request.urlopen(f"{registry_url(port)}/subjects", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
