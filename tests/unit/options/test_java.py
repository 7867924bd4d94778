from __future__ import annotations

from pathlib import Path

import pytest

from kafkeep.check_result import CheckStatus
from kafkeep.errors import EnvironmentFault
from kafkeep.maintenance.doctor import check_java, errors_as_checks
from kafkeep.options.spark import find_java_tool, major_version, parse_java_version, require_java


@pytest.mark.parametrize(
    ("printed", "version", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime ...', "17.0.15", 17),
        ('java version "1.8.0_292"\nJava(TM) SE ...', "1.8.0_292", 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx\nopenjdk version "21" 2023-09-19', "21", 21),
        ('openjdk version "25-ea" 2025-09-16', "25-ea", 25),
    ],
)
def test_java_version_is_read_from_what_java_prints(printed: str, version: str, major: int) -> None:
    assert parse_java_version(printed) == version
    assert major_version(version) == major


def test_java_version_is_none_when_something_else_answers() -> None:
    assert parse_java_version("Unable to locate a Java Runtime.") is None


def _fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = _fake_java(tmp_path / "own", "21.0.1")
    other = _fake_java(tmp_path / "other", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("PATH", f"{other.parent}:/bin:/usr/bin")
    assert require_java() == str(own)


def test_java_that_is_too_old_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=r"Java 17 or newer .* 11\.0\.2"):
        require_java()


def test_a_runtime_that_names_its_version_is_not_run_when_time_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = _fake_java(tmp_path, "17.0.1")
    release = tmp_path / "release"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert require_java(quick=True) == str(java)
    release.write_text('IMPLEMENTOR="x"\nJAVA_VERSION="11.0.2"\n')
    assert require_java() == str(java)
    with pytest.raises(EnvironmentFault, match=r"Java 17 or newer .* 11\.0\.2"):
        require_java(quick=True)


def test_java_that_is_missing_gives_a_hint_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="none was found") as caught:
        require_java()
    assert caught.value.hint
    assert "apt install openjdk-17" in caught.value.hint


@pytest.mark.parametrize("made", ["nothing", "no java", "java is a folder", "java cannot run"])
def test_a_bad_java_home_is_refused_and_not_silently_replaced(
    made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = _fake_java(tmp_path / "other", "17.0.1")
    home = tmp_path / "home"
    if made == "no java":
        (home / "bin").mkdir(parents=True)
    elif made == "java is a folder":
        (home / "bin" / "java").mkdir(parents=True)
    elif made == "java cannot run":
        _fake_java(home, "21.0.1").chmod(0o644)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", f"{other.parent}:/bin:/usr/bin")
    with pytest.raises(
        EnvironmentFault, match=r"JAVA_HOME is .*, but it contains no Java"
    ) as caught:
        require_java()
    assert caught.value.hint
    assert "unset it" in caught.value.hint
    with pytest.raises(EnvironmentFault, match="JAVA_HOME"):
        find_java_tool("keytool")
    [check] = errors_as_checks("java", check_java())
    assert (check.verdict, check.subject) == (CheckStatus.FAIL, "java")
    assert "JAVA_HOME" in check.what
    # A JAVA_HOME that is set to nothing is none.
    monkeypatch.setenv("JAVA_HOME", "")
    assert require_java() == str(other)
