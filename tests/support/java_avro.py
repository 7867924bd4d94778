"""The Java Avro tools, as a reader that shares nothing with kafkeep; downloaded once (72 MB)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from kafkeep.dev import downloads
from kafkeep.options.spark import require_java

VERSION = "1.12.1"
_MODULE = f"""\
    <dependency org="org.apache.avro" name="avro-tools" rev="{VERSION}" conf="default->master"
                transitive="false"/>"""


def tools_jar() -> Path:
    """Return the jar, kept in the cache beside Kafka's."""

    def fill(folder: Path) -> None:
        downloads._resolve("avro-tools", _MODULE, folder / "libs", types=("jar",))

    home = downloads.cached(
        f"avro-tools-{VERSION}", fill, lambda _: None, f"Avro tools {VERSION} (72 MB)"
    )
    return home / "libs" / f"avro-tools-{VERSION}.jar"


def read_records(file: Path) -> list[Any]:
    """Return every record of an Avro file in Avro's JSON form."""
    return [json.loads(line) for line in _run("tojson", str(file)).split("\n") if line]


def read_schema(file: Path) -> Any:
    """Return the schema an Avro file was written with."""
    return json.loads(_run("getschema", str(file)))


def _run(*arguments: str) -> str:
    argv = [require_java(), "-Dfile.encoding=UTF-8", "-jar", str(tools_jar()), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
