"""A worker's file, variables and flags: each key is honoured, holds anyway, is refused or named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.connect.worker.fixed_keys import KEYS, UNDER
from kafkeep.connect.worker.keys import BASIC_AUTH, GROUPS
from kafkeep.connect.worker.options import DECLARED, WorkerOptions, from_environ, variable
from kafkeep.connect.worker.rest_security import Role, token_digest, user_line
from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors, iter_options

JSON = "org.apache.kafka.connect.json.JsonConverter"
DISTRIBUTED = f"""\
# what Apache Kafka ships as connect-distributed.properties
bootstrap.servers=localhost:9092
group.id=connect-cluster
key.converter={JSON}
value.converter={JSON}
key.converter.schemas.enable=true
value.converter.schemas.enable=true
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
#offset.storage.partitions=25
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
offset.flush.interval.ms=10000
plugin.path=/usr/local/share/java,/opt/connectors
"""
SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="u" password="hunter22";',
}


def load(flags: dict[str, str] | None = None, environ: dict[str, str] | None = None):
    given = {"bootstrap.servers": "kafka:9092", **(flags or {})}
    return WorkerOptions.load(None, environ or {}, given)


def wrong(flags: dict[str, str]) -> dict[str, str]:
    with pytest.raises(ConfigErrors) as caught:
        load(flags)
    return caught.value.by_key


def test_kafkas_own_file_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "connect-distributed.properties"
    file.write_text(DISTRIBUTED)
    worker = WorkerOptions.load(file, {})
    assert worker.kafka.bootstrap_servers == "localhost:9092"
    assert worker.notes == ()
    assert worker.defaults == {
        "key.converter": JSON,
        "key.converter.schemas.enable": "true",
        "value.converter": JSON,
        "value.converter.schemas.enable": "true",
    }
    assert places(worker) == [("127.0.0.1", 8083)]
    assert worker.service.state_address.endswith("/.local/state/kafkeep/connect-cluster")


def test_flags_win_over_variables_and_these_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("bootstrap.servers=file:1\ngroup.id=file\nrest.port=1\n")
    environ = {"CONNECT_GROUP_ID": "connect", "KAFKEEP_GROUP_ID": "ours", "CONNECT_REST_PORT": "2"}
    worker = WorkerOptions.load(file, environ, {"rest.port": "3"})
    found = (worker.service.bootstrap_servers, worker.service.group_id, places(worker)[0][1])
    assert found == ("file:1", "ours", 3)


def test_variables_are_named_as_in_confluents_images() -> None:
    environ = {
        "CONNECT_BOOTSTRAP_SERVERS": "kafka:9092",
        "CONNECT_REST_ADVERTISED_HOST_NAME": "worker-1",
        "CONNECT_CONSUMER_SASL_JAAS_CONFIG": "x",
        "CONNECT_A__B___C": "1",
        "CONNECT_EMPTY": "",
        "PATH": "/bin",
    }
    assert from_environ(environ) == {
        "bootstrap.servers": "kafka:9092",
        "rest.advertised.host.name": "worker-1",
        "consumer.sasl.jaas.config": "x",
        "a_b-c": "1",
    }


@pytest.mark.parametrize("key", DECLARED)
def test_every_declared_key_has_a_variable_of_ours(key: str) -> None:
    assert from_environ({variable(key): "1"}) == {key: "1"}


def test_other_variables_of_ours_are_not_keys() -> None:
    assert from_environ({"KAFKEEP_ARCHIVE": "x", "KAFKEEP_DEBUG": "1"}) == {}


def test_the_state_lies_in_a_folder_of_the_groups_name() -> None:
    flags = {"kafkeep.state": "s3://bucket/state/", "group.id": "one"}
    assert load(flags).state_address == "s3://bucket/state/one"
    assert load({"kafkeep.state": "/var/lib/k"}).state_address == "/var/lib/k/kafkeep"


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(ConfigErrors) as caught:
        WorkerOptions.load(None, {}, {})
    assert list(caught.value.by_key) == ["bootstrap.servers"]


@pytest.mark.parametrize(
    ("listeners", "bound"),
    [
        ("http://127.0.0.1:9000", [("127.0.0.1", 9000)]),
        ("HTTP://localhost", [("localhost", 8083)]),
        ("http://[::1]:8083", [("::1", 8083)]),
        ("http://127.0.0.1:0", [("127.0.0.1", 0)]),
        ("http://localhost:1, http://[::1]:1,", [("localhost", 1), ("::1", 1)]),
        ("", [("127.0.0.1", 8083)]),
    ],
)
def test_listeners_say_where_the_api_is(listeners: str, bound: list[tuple[str, int]]) -> None:
    assert places(load({"listeners": listeners})) == bound


def places(worker: WorkerOptions) -> list[tuple[str, int]]:
    return [(one.address, one.port) for one in worker.rest.listening]


def test_a_port_on_top_changes_that_part_of_the_files_listeners(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("bootstrap.servers=kafka:9092\nlisteners=http://localhost:8083\n")
    assert places(WorkerOptions.load(file, {}, {"rest.port": "9000"})) == [("localhost", 9000)]
    found = WorkerOptions.load(file, {"CONNECT_REST_HOST_NAME": "127.0.0.2"})
    assert places(found) == [("127.0.0.2", 8083)]


def test_a_port_on_top_of_several_listeners_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("bootstrap.servers=k:1\nlisteners=http://localhost:1,http://localhost:2\n")
    with pytest.raises(ConfigErrors) as caught:
        WorkerOptions.load(file, {}, {"rest.port": "9000"})
    assert list(caught.value.by_key) == ["rest.port"]
    assert "set listeners instead" in caught.value.by_key["rest.port"]
    other = {"listeners": "http://127.0.0.1:3", "rest.port": "4"}
    assert places(WorkerOptions.load(file, {}, other)) == [("127.0.0.1", 3)]


@pytest.mark.parametrize(
    "listener",
    [
        "https://127.0.0.1:8443",  # without a key store
        "http://127.0.0.1:1,https://127.0.0.1:2",
        "http://127.0.0.1:1,http://127.0.0.1:1",
        "http://localhost:1,localhost:2",
        "127.0.0.1:8083",
        "http://a:x",
    ],
)
def test_listeners_that_cannot_be_had_are_refused(listener: str) -> None:
    assert list(wrong({"listeners": listener})) == ["listeners"]


@pytest.mark.parametrize(
    ("flags", "key"),
    [
        ({"listeners": "http://:8083"}, "listeners"),
        ({"listeners": "http://0.0.0.0:8083"}, "listeners"),
        ({"listeners": "http://127.0.0.1:8083,http://192.168.1.5:8083"}, "listeners"),
        ({"rest.host.name": "192.168.1.5"}, "rest.host.name"),
        ({"rest.host.name": ""}, "rest.host.name"),
    ],
)
def test_the_api_is_not_open_to_others_unless_configured(flags: dict[str, str], key: str) -> None:
    assert key in wrong(flags)
    assert load({**flags, "kafkeep.rest.insecure": "true"}).security.insecure


def test_the_advertised_address_is_the_workers_id() -> None:
    flags = {"rest.advertised.host.name": "worker-1", "rest.advertised.port": "80"}
    rest = load(flags).rest
    assert (rest.worker_id(), rest.url()) == ("worker-1:80", "http://worker-1:80")
    assert "worker-1" in load(flags).security.allowed_hosts
    assert load({"rest.port": "0"}).rest.worker_id(4321) == "127.0.0.1:4321"
    assert load({"rest.host.name": "::1"}).rest.worker_id() == "[::1]:8083"
    several = load({"listeners": "http://localhost:0,http://ip6-localhost:0"})
    assert several.rest.url(4321) == "http://localhost:4321"
    assert several.security.allowed_hosts == {"localhost", "ip6-localhost"}


def test_users_and_tokens_come_from_their_files(tmp_path: Path) -> None:
    users, tokens = tmp_path / "users", tmp_path / "tokens"
    users.write_text(f"# people\n{user_line('alice', 'admin', 'pass:word')}\n")
    tokens.write_text(f"read:0123456789abcdef\noperate:sha256:{token_digest('other')}\n")
    worker = load(
        {
            "listeners": "http://:8083",
            "kafkeep.rest.users.file": str(users),
            "kafkeep.rest.tokens.file": str(tokens),
            "rest.extension.classes": BASIC_AUTH,
        }
    )
    stored, role = worker.security.basic_users["alice"]
    assert stored.startswith("$argon2id$")
    assert role is Role.ADMIN
    assert worker.security.bearer_tokens == {
        token_digest("0123456789abcdef"): Role.READ,
        token_digest("other"): Role.OPERATE,
    }
    assert "argon2id" not in repr(worker)


@pytest.mark.parametrize(
    "text",
    ["alice:admin:plain", "alice:king:$argon2id$x", "alice", "a:read:\na:read:", ":read:x"],
)
def test_bad_users_files_are_refused_without_telling_a_secret(tmp_path: Path, text: str) -> None:
    users = tmp_path / "users"
    users.write_text(text)
    found = wrong({"kafkeep.rest.users.file": str(users)})
    assert list(found) == ["kafkeep.rest.users.file"]
    assert "plain" not in found["kafkeep.rest.users.file"]


@pytest.mark.parametrize("text", ["admin:short", "0123456789abcdef", "admin:sha256:xyz"])
def test_bad_tokens_files_are_refused(tmp_path: Path, text: str) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(text)
    assert list(wrong({"kafkeep.rest.tokens.file": str(tokens)})) == ["kafkeep.rest.tokens.file"]


@pytest.mark.parametrize(
    ("mode", "has_tokens", "shows"),
    [
        (None, True, True),
        (None, False, False),
        ("auto", True, True),
        ("always", True, False),
        ("always", False, False),
        (" Never ", True, True),
        ("never", False, True),
    ],
)
def test_secrets_are_masked_by_default_unless_callers_say_who_they_are(
    tmp_path: Path, mode: str | None, has_tokens: bool, shows: bool
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("admin:0123456789abcdef")
    flags = {"kafkeep.rest.tokens.file": str(tokens)} if has_tokens else {}
    flags |= {"kafkeep.rest.mask.secrets": mode} if mode else {}
    worker = load(flags)
    assert worker.security.shows_secrets is shows
    assert worker.security.shows_secrets_to(Role.ADMIN) is shows
    for role in (Role.OPERATE, Role.READ, None):
        assert not worker.security.shows_secrets_to(role)
    warned = [note for note in worker.notes if "kafkeep.rest.mask.secrets=never" in note]
    assert bool(warned) == (shows and not has_tokens)


def test_a_masking_that_there_is_not_is_refused() -> None:
    assert list(wrong({"kafkeep.rest.mask.secrets": "sometimes"})) == ["kafkeep.rest.mask.secrets"]


def test_a_missing_file_of_users_is_reported() -> None:
    assert (
        "cannot read" in wrong({"kafkeep.rest.users.file": "/nowhere"})["kafkeep.rest.users.file"]
    )


@pytest.mark.parametrize("text", ["/tmp/a\0b", "/tmp/half-a-character-\ud800"])
@pytest.mark.parametrize(
    "key",
    [
        "kafkeep.rest.users.file",
        "kafkeep.rest.tokens.file",
        "kafkeep.state",
        "kafkeep.allowed.folders",
        "config.providers.f.param.allowed.paths",
        "listeners.https.ssl.keystore.location",
    ],
)
def test_what_cannot_be_a_path_is_refused_by_its_key(key: str, text: str) -> None:
    needed = {}
    if key.startswith("config.providers"):
        kind = "org.apache.kafka.common.config.provider.FileConfigProvider"
        needed = {"config.providers": "f", "config.providers.f.class": kind}
    if key.startswith("listeners"):
        needed = {"listeners": "https://127.0.0.1:0"}
    found = wrong({**needed, key: text})
    assert list(found) == [key]
    assert f"{text!r} is not a path" in found[key]


def test_a_state_in_the_home_of_nobody_is_refused() -> None:
    found = wrong({"kafkeep.state": "~nobody-we-know/state"})
    assert "is in the home of an unknown user" in found["kafkeep.state"]


def test_basic_auth_without_users_is_refused() -> None:
    assert "kafkeep.rest.users.file" in wrong({"rest.extension.classes": BASIC_AUTH}).popitem()[1]
    assert list(wrong({"rest.extension.classes": "com.example.Other"})) == [
        "rest.extension.classes"
    ]


def test_clients_take_what_is_under_their_prefix_over_what_has_none() -> None:
    worker = load(
        {
            **SASL,
            "client.id": "worker",
            "consumer.client.id": "reader",
            "consumer.bootstrap.servers": "other:9092",
            "producer.sasl.mechanism": "SCRAM-SHA-256",
        }
    )
    assert worker.kafka.properties == {**SASL, "client.id": "worker"}
    assert worker.consumer.properties == {**SASL, "client.id": "reader"}
    assert worker.consumer.bootstrap_servers == "other:9092"
    assert worker.producer.properties["sasl.mechanism"] == "SCRAM-SHA-256"
    assert "hunter22" not in repr(worker)


def test_client_properties_without_effect_and_unknown_ones_are_named() -> None:
    worker = load({"consumer.max.poll.records": "500", "producer.confluent.monitoring": "x"})
    assert "consumer.max.poll.records has no effect here" in worker.notes
    assert any("producer.confluent.monitoring" in note for note in worker.notes)
    assert worker.producer.properties == {}


@pytest.mark.parametrize(
    ("flags", "key"),
    [
        ({"ssl.engine.factory.class": "x", "security.protocol": "SSL"}, "ssl.engine.factory.class"),
        (
            {"consumer.sasl.login.callback.handler.class": "x"},
            "consumer.sasl.login.callback.handler.class",
        ),
        ({"sasl.mechanism": "PLAIN"}, "security.protocol"),
        ({"consumer.ssl.protocol": "TLS"}, "consumer.security.protocol"),
        ({"consumer.bootstrap.servers": "x"}, "consumer.bootstrap.servers"),
    ],
)
def test_client_properties_that_cannot_hold_are_refused(flags: dict[str, str], key: str) -> None:
    assert list(wrong(flags)) == [key]


def test_what_is_read_by_default_goes_to_connectors() -> None:
    flags = {"consumer.auto.offset.reset": "latest", "consumer.isolation.level": "read_uncommitted"}
    worker = load(flags)
    assert worker.defaults == {f"consumer.override.{k[9:]}": v for k, v in flags.items()}
    assert worker.notes == ()
    told = {"connector.class": "kafkeep.Backup", "topics": "a", "s3.bucket.name": "bucket"}
    read = ConnectorConfig.from_map(told, environ={}, defaults=worker.defaults)
    assert (read.auto_offset_reset, read.isolation_level) == ("latest", "read_uncommitted")
    own = {**told, "consumer.override.auto.offset.reset": "earliest"}
    read = ConnectorConfig.from_map(own, environ={}, defaults=worker.defaults)
    assert (read.auto_offset_reset, read.isolation_level) == ("earliest", "read_uncommitted")


def test_a_connectors_converter_comes_without_the_workers_sub_keys() -> None:
    flags = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    defaults = load(flags).defaults
    told = {
        "connector.class": "kafkeep.Backup",
        "topics": "a",
        "s3.bucket.name": "bucket",
        "format.class": "json",
    }
    read = ConnectorConfig.from_map(told, environ={}, defaults=defaults)
    assert {key: read.sink.texts[key] for key in flags} == flags
    string = "org.apache.kafka.connect.storage.StringConverter"
    own = {**told, "value.converter": string}
    read = ConnectorConfig.from_map(own, environ={}, defaults=defaults)
    assert read.sink.texts["value.converter"] == string
    assert "value.converter.schemas.enable" not in read.sink.texts


@pytest.mark.parametrize(
    "flags",
    [
        {"value.converter": "com.example.Unknown"},
        {"key.converter.schemas.enable": "true"},
        {"connector.client.config.override.policy": "Some"},
        {"topic.tracking.enable": "maybe"},
        {"kafkeep.lease.timeout.ms": "0"},
        {"rest.port": "99999"},
        {"kafkeep.state": "ftp://x/y"},
        {"group.id": "a/b"},
        {"kafkeep.allowed.folders": "relative"},
        {"rest.advertised.listener": "https"},
        {"access.control.allow.origin": "*"},
        {"admin.listeners": "http://:1"},
        {"topic.creation.enable": "false"},
        {"exactly.once.source.support": "perhaps"},
        {"listeners.https.ssl.keystore.location": "/x"},
        {"offset.storage.replication.factor": "three"},
        {"config.providers": "vault"},
    ],
    ids=lambda flags: next(iter(flags)),
)
def test_values_that_cannot_be_had_are_refused_by_their_key(flags: dict[str, str]) -> None:
    assert next(iter(wrong(flags))).startswith(next(iter(flags)))


def test_all_errors_are_reported_together() -> None:
    assert set(wrong({"rest.port": "x", "group.id": "/", "bootstrap.servers": "y"})) == {
        "rest.port",
        "group.id",
        "bootstrap.servers",
    }


@pytest.mark.parametrize("name", ["None", "Principal"])
def test_policies_go_by_their_short_name_or_their_class(name: str) -> None:
    package = "org.apache.kafka.connect.connector.policy."
    for text in (name, f"{package}{name}ConnectorClientConfigOverridePolicy"):
        assert load({"connector.client.config.override.policy": text}).restrictions.policy == name


def test_an_unknown_key_is_named_with_the_nearest() -> None:
    notes = load({"offset.flush.intervall.ms": "1", "x.y": "1"}).notes
    assert notes[0] == (
        "there is no key offset.flush.intervall.ms. Did you mean offset.flush.interval.ms?"
    )
    assert notes[1].startswith("there is no key x.y")


def test_the_workers_own_values_may_be_references(tmp_path: Path) -> None:
    (tmp_path / "kafka").write_text("password=hunter22\n")
    provider = "org.apache.kafka.common.config.provider.FileConfigProvider"
    worker = load(
        {
            "config.providers": "file",
            "config.providers.file.class": provider,
            "config.providers.file.param.allowed.paths": str(tmp_path),
            **SASL,
            "sasl.jaas.config": SASL["sasl.jaas.config"].replace(
                "hunter22", f"${{file:{tmp_path}/kafka:password}}"
            ),
        }
    )
    assert worker.kafka.properties["sasl.jaas.config"] == SASL["sasl.jaas.config"]
    assert worker.notes == ()


def test_spark_settings_are_passed_on() -> None:
    assert load({"spark.master": "local[2]"}).spark == {"spark.master": "local[2]"}


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        WorkerOptions.load(tmp_path / "none", {})
    (tmp_path / "bad").write_text("a=\\u12")
    with pytest.raises(UsageError, match="bad: line 1"):
        WorkerOptions.load(tmp_path / "bad", {})


def test_no_key_is_documented_twice_and_each_has_a_sentence() -> None:
    options = [one for groups in GROUPS.values() for group in groups for one in iter_options(group)]
    names = [one.name for one in options] + [one.name for one in (*KEYS, *UNDER)]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    for sentence in [one.help for one in options] + [one.sentence for one in (*KEYS, *UNDER)]:
        assert sentence.endswith(".")
