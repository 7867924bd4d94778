from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kafkeep.errors import UsageError
from kafkeep.options.kafka import KafkaOptions


def test_servers_are_read_with_protocol_ipv6_and_blanks() -> None:
    options = KafkaOptions("a:1, SSL://b.example:9093,[::1]:3")
    assert options.servers == [("a", 1), ("b.example", 9093), ("::1", 3)]


@pytest.mark.parametrize("text", ["", "a", "a:", "a:b", "a:99999", "http://a", ","])
def test_what_is_not_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        KafkaOptions(text)


def test_secrets_are_not_shown() -> None:
    options = KafkaOptions("a:1", {"ssl.key.password": "hunter2"})
    assert "hunter2" not in repr(options)
    assert "ssl.key.password" in repr(options)


def test_options_travel_and_serve_as_keys() -> None:
    options = KafkaOptions("a:1", {"client.id": "x"})
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    assert hash(copy) == hash(options)


def test_the_file_gives_servers_when_none_are_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=b:2\nclient.id=me\n")
    assert KafkaOptions.load(None, file) == KafkaOptions("b:2", {"client.id": "me"})
    assert KafkaOptions.load("a:1", file).bootstrap_servers == "a:1"


def test_a_missing_file_and_missing_servers_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        KafkaOptions.load("a:1", tmp_path / "none")
    with pytest.raises(UsageError, match="no bootstrap servers"):
        KafkaOptions.load(None)
