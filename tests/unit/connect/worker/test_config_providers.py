"""References are filled in from what the worker's file allows, and from nothing else."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from kafkeep.connect.safety.secrets import MASK, hide, mask
from kafkeep.connect.worker.config_providers import Providers
from kafkeep.options.option import ConfigErrors

PACKAGE = "org.apache.kafka.common.config.provider."


def worker(**allowed: str) -> dict[str, str]:
    """Return the lines of a worker's file with all three providers."""
    lines = {
        "config.providers": "file,dir,env",
        "config.providers.file.class": PACKAGE + "FileConfigProvider",
        "config.providers.dir.class": PACKAGE + "DirectoryConfigProvider",
        "config.providers.env.class": PACKAGE + "EnvVarConfigProvider",
    }
    for name, text in allowed.items():
        param = "allowlist.pattern" if name == "env" else "allowed.paths"
        lines[f"config.providers.{name}.param.{param}"] = text
    return lines


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "s3.properties").write_text("user = alice\nsecret=p\\u00e4ss:word\nempty=\n")
    (folder / "token").write_text("abc\n")
    (tmp_path / "outside.properties").write_text("secret=outside\n")
    return folder


def resolve(text: str, lines: dict[str, str], environ: dict[str, str] | None = None) -> str:
    return Providers.from_worker(lines, environ or {}).resolve({"key": text})["key"]


def refusal(text: str, lines: dict[str, str], environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigErrors) as caught:
        resolve(text, lines, environ)
    assert list(caught.value.by_key) == ["key"]
    return caught.value.by_key["key"]


def test_a_file_gives_the_value_of_its_key(secrets: Path) -> None:
    lines = worker(file=str(secrets))
    assert resolve(f"${{file:{secrets}/s3.properties:secret}}", lines) == "päss:word"
    assert resolve(f"${{file:{secrets}/s3.properties:empty}}", lines) == ""


def test_several_references_in_one_value_are_all_filled_in(secrets: Path) -> None:
    at = f"file:{secrets}/s3.properties"
    text = f'x username="${{{at}:user}}" password="${{{at}:secret}}";'
    assert resolve(text, worker(file=str(secrets))) == 'x username="alice" password="päss:word";'


def test_a_folder_gives_the_whole_of_a_file(secrets: Path) -> None:
    assert resolve(f"${{dir:{secrets}:token}}", worker(dir=str(secrets))) == "abc\n"


@pytest.mark.parametrize("text", ["${env:S3_KEY}", "${env::S3_KEY}"])
def test_a_variable_is_read_with_and_without_an_empty_path(text: str) -> None:
    assert resolve(text, worker(env="S3_.*"), {"S3_KEY": "abc"}) == "abc"


def test_a_file_may_be_allowed_by_itself(secrets: Path) -> None:
    lines = worker(file=f"/nowhere, {secrets}/s3.properties")
    assert resolve(f"${{file:{secrets}/s3.properties:user}}", lines) == "alice"
    assert "not under" in refusal(f"${{file:{secrets}/token:user}}", lines)


def test_values_without_references_stay_as_they_are() -> None:
    config = {"a": "plain", "b": "${topic}", "c": "$1", "d": "${}", "e": "${a b:c}"}
    assert Providers.from_worker({}, {}).resolve(config) == config


def test_a_resolved_value_that_resembles_a_reference_is_not_resolved_again() -> None:
    environ = {"A": "${env:B}", "B": "secret"}
    assert resolve("${env:A}", worker(env=".*"), environ) == "${env:B}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("${file:/etc/passwd:root}", "config.providers.file.param.allowed.paths="),
        ("${dir:/etc:passwd}", "config.providers.dir.param.allowed.paths="),
        ("${env:HOME}", "config.providers.env.param.allowlist.pattern="),
    ],
)
def test_nothing_is_read_unless_allowed_and_the_refusal_names_the_line(
    text: str, line: str
) -> None:
    assert line in refusal(text, worker(), {"HOME": "/root"})


def test_a_reference_to_a_provider_the_worker_lacks_is_refused_with_the_lines_to_add() -> None:
    why = refusal("${file:/etc/passwd:root}", {})
    assert "config.providers=file" in why
    assert f"config.providers.file.class={PACKAGE}FileConfigProvider" in why


def test_two_dots_do_not_leave_the_allowed_folder(secrets: Path) -> None:
    why = refusal(f"${{file:{secrets}/../outside.properties:secret}}", worker(file=str(secrets)))
    assert "not under" in why


def test_a_name_that_begins_like_the_allowed_folder_is_not_in_it(secrets: Path) -> None:
    twin = secrets.with_name("secrets-other")
    twin.mkdir()
    (twin / "x").write_text("a=b")
    assert "not under" in refusal(f"${{file:{twin}/x:a}}", worker(file=str(secrets)))


def test_a_link_does_not_leave_the_allowed_folder(secrets: Path) -> None:
    (secrets / "link").symlink_to(secrets.parent / "outside.properties")
    (secrets / "folder").symlink_to(secrets.parent)
    lines = worker(file=str(secrets), dir=str(secrets))
    assert "leads out" in refusal(f"${{file:{secrets}/link:secret}}", lines)
    assert "leads out" in refusal(f"${{dir:{secrets}:link}}", lines)
    assert "leads out" in refusal(f"${{dir:{secrets}/folder:outside.properties}}", lines)


def test_links_inside_the_allowed_folder_work_as_kubernetes_makes_them(secrets: Path) -> None:
    (secrets / "..2024_01").mkdir()
    (secrets / "..2024_01" / "password").write_text("abc")
    (secrets / "..data").symlink_to("..2024_01")
    (secrets / "password").symlink_to("..data/password")
    assert resolve(f"${{dir:{secrets}:password}}", worker(dir=str(secrets))) == "abc"


def test_an_allowed_folder_may_itself_be_a_link(secrets: Path) -> None:
    link = secrets.with_name("link")
    link.symlink_to(secrets)
    assert resolve(f"${{dir:{link}:token}}", worker(dir=str(link))) == "abc\n"


@pytest.mark.parametrize("key", ["../outside.properties", "..", "", "a/b"])
def test_a_folders_key_is_the_name_of_a_file(secrets: Path, key: str) -> None:
    assert "name of a file" in refusal(f"${{dir:{secrets}:{key}}}", worker(dir=str(secrets)))


def test_what_is_missing_or_not_a_plain_file_is_reported(secrets: Path) -> None:
    os.mkfifo(secrets / "pipe")
    (secrets / "large").write_bytes(b"a" * ((1 << 20) + 1))
    (secrets / "odd").write_bytes(b"\xff\xfe")
    lines = worker(file=str(secrets), dir=str(secrets))
    assert "No such file" in refusal(f"${{dir:{secrets}:none}}", lines)
    assert "not a plain file" in refusal(f"${{dir:{secrets}:pipe}}", lines)
    assert "larger than" in refusal(f"${{dir:{secrets}:large}}", lines)
    assert "not UTF-8" in refusal(f"${{dir:{secrets}:odd}}", lines)
    assert "no key other" in refusal(f"${{file:{secrets}/s3.properties:other}}", lines)
    assert "absolute" in refusal("${file:secrets/s3.properties:user}", lines)
    assert "is not a path" in refusal("${file:/a\0b:user}", lines)


def test_variables_are_matched_by_their_whole_name() -> None:
    environ = {"S3_KEY": "a", "MY_S3_KEY": "b", "S3_KEY2": "c"}
    assert resolve("${env:S3_KEY}", worker(env="S3_KEY"), environ) == "a"
    for name in ("MY_S3_KEY", "S3_KEY2"):
        assert "does not match" in refusal(f"${{env:{name}}}", worker(env="S3_KEY"), environ)


def test_a_variable_that_is_not_set_or_has_a_path_is_refused() -> None:
    assert "no variable S3_KEY" in refusal("${env:S3_KEY}", worker(env=".*"))
    assert "no path" in refusal("${env:/a:S3_KEY}", worker(env=".*"), {"S3_KEY": "a"})


def test_all_wrong_keys_are_reported_together_without_values(secrets: Path) -> None:
    providers = Providers.from_worker(worker(file=str(secrets)), {"X": "hunter22"})
    with pytest.raises(ConfigErrors) as caught:
        providers.resolve({"a": "${env:X}", "b": "${dir:/etc:passwd}", "c": "fine"})
    assert set(caught.value.by_key) == {"a", "b"}
    assert "hunter22" not in caught.value.message


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ({"config.providers": "vault"}, "config.providers.vault.class"),
        (
            {"config.providers": "v", "config.providers.v.class": "com.example.VaultProvider"},
            "config.providers.v.class",
        ),
        ({"config.providers.file.class": "x"}, "config.providers.file.class"),
        (
            worker() | {"config.providers.file.param.other": "x"},
            "config.providers.file.param.other",
        ),
        (worker() | {"config.providers.file.clas": "x"}, "config.providers.file.clas"),
        (worker(file="relative/folder"), "config.providers.file.param.allowed.paths"),
        (worker(env="("), "config.providers.env.param.allowlist.pattern"),
    ],
)
def test_lines_that_cannot_be_honoured_are_refused_by_name(lines: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        Providers.from_worker(lines)
    assert list(caught.value.by_key) == [key]


def test_a_provider_may_have_any_name_and_its_class_stands_without_its_package() -> None:
    lines = {
        "config.providers": "vars",
        "config.providers.vars.class": "EnvVarConfigProvider",
        "config.providers.vars.param.allowlist.pattern": "A",
    }
    assert resolve("${vars:A}", lines, {"A": "1"}) == "1"


def test_what_was_filled_in_is_secret_under_any_key(secrets: Path) -> None:
    at = f"${{file:{secrets}/s3.properties:secret}}"
    config = {"flush.size": at, "topics": f"orders-{at}", "tasks.max": "${env:N}", "name": "x"}
    providers = Providers.from_worker(worker(file=str(secrets), env="N"), {"N": "2"})
    resolved = providers.resolve(config)
    assert resolved["flush.size"] == "päss:word"
    told = "'päss:word' is not a number; topic orders-päss:word; 2 tasks of x"
    assert hide(told, [config, resolved]) == f"'{MASK}' is not a number; topic {MASK}; 2 tasks of x"
    assert hide("only päss:word", [{"topics": resolved["topics"]}]) == f"only {MASK}"
    shown = {"flush.size": MASK, "topics": MASK, "tasks.max": "2", "name": "x"}
    assert mask(resolved) == shown
    assert mask(pickle.loads(pickle.dumps(resolved))) == shown
