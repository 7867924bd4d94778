"""Where Java is on this machine, and whether it is new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from kafkeep.errors import EnvironmentFault

_HINT = (
    "Install a Java {minimum} runtime (Debian/Ubuntu: apt install openjdk-{minimum}-jre-headless;"
    " macOS: brew install openjdk@{minimum}; anywhere: sdk install java, from sdkman.io),"
    " or set JAVA_HOME to one that is there."
)


def require_java(minimum: int = 17) -> str:
    """Return the path of a Java executable of version ``minimum`` or newer.

    JAVA_HOME decides when it is set, else PATH. Raises EnvironmentFault when there is none, when
    it does not run, or when it is too old; asks the executable itself, so it costs some 50 ms.
    """
    hint = _HINT.format(minimum=minimum)
    java = find_java_tool("java")
    if java is None:
        raise EnvironmentFault(f"Java {minimum} or newer is needed, and none was found", hint=hint)
    version = java_version(java)
    if version is None:
        raise EnvironmentFault(f"{java} does not say its version; is it Java?", hint=hint)
    if major_version(version) < minimum:
        raise EnvironmentFault(
            f"Java {minimum} or newer is needed, and {java} is version {version}", hint=hint
        )
    return java


def java_version(java: str) -> str | None:
    """Ask a Java executable for its version (``17.0.15``); None when it does not answer."""
    try:
        asked = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(asked.stderr + asked.stdout)


def parse_java_version(text: str) -> str | None:
    """Pick the version out of what ``java -version`` prints."""
    found = re.search(r'version "([^"]+)"', text)
    return found.group(1) if found else None


def major_version(version: str) -> int:
    """Return 17 for ``17.0.15`` and 8 for ``1.8.0_292``, the way old ones counted."""
    numbers = [int(number) for number in re.findall(r"\d+", version)] or [0]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java_tool(name: str) -> str | None:
    """Return the path of a Java's command: the one of JAVA_HOME when that is set, else of PATH.

    A JAVA_HOME without a Java raises EnvironmentFault: another Java is never taken in its place.
    """
    home = os.environ.get("JAVA_HOME")
    if not home:
        return shutil.which(name)
    folder = Path(home) / "bin"
    if shutil.which("java", path=str(folder)) is None:
        raise EnvironmentFault(
            f"JAVA_HOME is {home}, and there is no Java in it: {folder / 'java'} cannot be run",
            hint="Set JAVA_HOME to the folder of a Java runtime, the one that holds bin/java, or"
            " unset it to use the java of PATH.",
        )
    return shutil.which(name, path=str(folder))
