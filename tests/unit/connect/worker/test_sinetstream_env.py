"""SINETStream's ``.env`` makes its two connectors, and again nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.support.sinetstream_cases import DATA, TIMES
from tests.support.waiting import PATIENCE_S
from typer.testing import CliRunner

from kafkeep.cli.main import app
from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.connect.worker.options import WorkerOptions
from kafkeep.connect.worker.sinetstream_env import (
    REQUIRED,
    apply_env_file,
    bootstrap_servers,
    parse_env,
    sinetstream_connectors,
)
from kafkeep.dev.process import Ports
from kafkeep.errors import AccessDeniedError, KafkeepError, TransientError, UsageError
from kafkeep.options.option import ConfigErrors

REGISTER_SH = Path(__file__).parents[4] / "deploy" / "sinetstream" / "register.sh"
ENV = """\
# broker
BROKER_HOSTNAME=kafka.example.org
KAFKA_TOPIC=sinetstream.sensor
AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE
AWS_SECRET_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY
S3_BUCKET_NAME=mybucket
"""
MORE = """\
S3_REGION=ap-northeast-1
S3_ENDPOINT_URL=http://minio:9000
S3_OBJECT_EXTENSION=.jpeg
REST_PORT=8084
"""


class _Connect(BaseHTTPRequestHandler):
    """Connect's answers to the four calls that matter, as the recorded ones are."""

    def do_GET(self) -> None:
        name = self.path.split("/")[2]
        config = self.server.connectors.get(name)
        missing = {"error_code": 404, "message": f"Connector {name} not found"}
        self._answer(*((404, missing) if config is None else (200, config)))

    def do_POST(self) -> None:
        self._define(json.loads(self._body()))

    def do_PUT(self) -> None:
        self._define({"name": self.path.split("/")[2], "config": json.loads(self._body())})

    def _define(self, asked: dict) -> None:
        self.server.calls.append((self.command, self.path))
        if self.server.refuse:
            return self._answer(*self.server.refuse.pop(0))
        name = asked["name"]
        status = 200 if name in self.server.connectors else 201
        self.server.connectors[name] = {**asked["config"], "name": name}
        return self._answer(status, {"name": name, "config": self.server.connectors[name]})

    def _body(self) -> bytes:
        self.server.seen.append(self.headers)
        return self.rfile.read(int(self.headers["Content-Length"]))

    def _answer(self, status: int, body: object) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[ThreadingHTTPServer]:
    with _serve(0) as server:
        yield server


@contextmanager
def _serve(port: int) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", port), _Connect)
    server.connectors, server.calls, server.seen, server.refuse = {}, [], [], []
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def env_file(tmp_path: Path) -> Path:
    path = tmp_path / ".env"
    path.write_text(ENV + MORE)
    return path


def register(service: ThreadingHTTPServer, env_file: Path, *more: str, **environ: str):
    url = f"http://127.0.0.1:{service.server_address[1]}"
    arguments = ["register", "--env-file", str(env_file), "--url", url, *more]
    return CliRunner().invoke(app, arguments, env=environ, standalone_mode=False)


def test_both_connectors_are_made_and_made_again_nothing_changes(service, env_file) -> None:
    first = register(service, env_file)
    assert first.stdout == "s3-sink-data: created\ns3-sink-timestamp: created\n"
    assert service.calls == [("POST", "/connectors")] * 2
    again = register(service, env_file)
    assert again.stdout == "s3-sink-data: unchanged\ns3-sink-timestamp: unchanged\n"
    assert len(service.calls) == 2


def test_a_changed_env_changes_the_connectors(service, env_file) -> None:
    register(service, env_file)
    env_file.write_text(ENV + MORE.replace(".jpeg", ".json"))
    result = register(service, env_file, "--output", "json")
    assert json.loads(result.stdout)["connectors"] == {
        "s3-sink-data": "changed",
        "s3-sink-timestamp": "unchanged",
    }
    assert service.calls[2:] == [("PUT", "/connectors/s3-sink-data/config")]
    assert service.connectors["s3-sink-data"]["format.bytearray.extension"] == ".json"


def test_the_connectors_are_those_of_register_sh(service, env_file) -> None:
    register(service, env_file)
    place = {
        "topics": "sinetstream.sensor",
        "s3.bucket.name": "mybucket",
        "s3.region": "ap-northeast-1",
        "store.url": "http://minio:9000",
        "format.bytearray.separator": "",
    }
    for name, known, own in (
        ("s3-sink-data", DATA, {"format.bytearray.extension": ".jpeg"}),
        ("s3-sink-timestamp", TIMES, {}),
    ):
        texts = {key: str(value) for key, value in known.items()}
        assert service.connectors[name] == {**texts, **place, **own, "name": name}
        ConnectorConfig.from_map(service.connectors[name], environ={})


def test_no_secret_is_sent(service, env_file) -> None:
    register(service, env_file)
    assert "EXAMPLE" not in json.dumps(service.connectors)


def test_a_busy_service_is_asked_again(service, env_file) -> None:
    service.refuse = [(409, {"error_code": 409, "message": "rebalance"})]
    assert "created" in register(service, env_file).stdout


def test_a_refusal_is_reported_with_its_reason(service, env_file) -> None:
    service.refuse = [(400, {"error_code": 400, "message": "flush.size is wrong"})]
    result = register(service, env_file)
    assert isinstance(result.exception, KafkeepError)
    assert "400: flush.size is wrong" in result.exception.message


def test_the_caller_is_identified_by_variables(service, env_file) -> None:
    register(service, env_file, KAFKEEP_REST_TOKEN="abc")
    assert service.seen[0]["Authorization"] == "Bearer abc"
    service.connectors.clear()
    register(service, env_file, KAFKEEP_REST_USER="u", KAFKEEP_REST_PASSWORD="p")
    assert service.seen[-1]["Authorization"] == "Basic dTpw"
    service.connectors.clear()
    service.refuse = [(401, {"error_code": 401, "message": "who are you"})]
    assert isinstance(register(service, env_file).exception, AccessDeniedError)


def test_a_service_that_does_not_answer_is_reported(env_file) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Connect)
    server.server_close()
    result = register(server, env_file)
    assert isinstance(result.exception, TransientError)
    assert "no service answers at http://127.0.0.1:" in result.exception.message
    assert result.exception.exit_code != 0


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_variable_is_named(service, env_file, name: str) -> None:
    lines = [line for line in ENV.splitlines() if not line.startswith(name)]
    env_file.write_text("\n".join(lines))
    result = register(service, env_file)
    assert isinstance(result.exception, ConfigErrors)
    assert result.exception.by_key == {name: "missing"}
    assert result.exception.exit_code == 2
    assert service.calls == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("KAFKA_TOPIC", "a b"),
        ("BROKER_HOSTNAME", "a b"),
        ("S3_ENDPOINT_URL", "minio:9000"),
        ("REST_PORT", "x"),
    ],
)
def test_a_wrong_variable_is_named(name: str, text: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        sinetstream_connectors({**parse_env(ENV), name: text})
    assert list(caught.value.by_key) == [name]


def test_what_is_not_set_has_sinetstreams_defaults() -> None:
    data = sinetstream_connectors(parse_env(ENV + "S3_REGION=\n"))["s3-sink-data"]
    assert data["s3.region"] == "us-east-1"
    assert data["format.bytearray.extension"] == ".bin"
    assert "store.url" not in data


def test_a_dry_run_prints_the_connectors_and_asks_nobody(env_file) -> None:
    result = CliRunner().invoke(
        app, ["register", "--env-file", str(env_file), "--dry-run"], standalone_mode=False
    )
    assert [one["name"] for one in json.loads(result.stdout)] == [
        "s3-sink-data",
        "s3-sink-timestamp",
    ]


def test_a_missing_env_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        apply_env_file(tmp_path / "none", {})


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("export A=b", "b"),
        ("A = b c # note", "b c"),
        ("A=b#c", "b#c"),
        ("A=", ""),
        ("A= # nothing", ""),
        ("A='b # $c'", "b # $c"),
        ('A="b # c" # note', "b # c"),
        ('A="say \\"x\\"\\n"', 'say "x"\n'),
        ("A=pa$1$", "pa$1$"),
    ],
)
def test_lines_are_read_as_compose_reads_them(line: str, value: str) -> None:
    assert parse_env(line) == {"A": value}


@pytest.mark.parametrize("line", ["A", "1A=b", "A='b", 'A="b" c', "A=${B}", 'A="$B"'])
def test_unreadable_lines_are_reported_by_number(line: str) -> None:
    with pytest.raises(UsageError, match="line 2"):
        parse_env(f"# first\n{line}\n")


def test_the_env_file_sets_up_the_worker_and_s3(env_file: Path) -> None:
    environ: dict[str, str] = {}
    apply_env_file(env_file, environ)
    assert environ == {
        "CONNECT_BOOTSTRAP_SERVERS": "kafka.example.org:9092",
        "CONNECT_REST_PORT": "8084",
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "AWS_REGION": "ap-northeast-1",
        "AWS_ENDPOINT_URL_S3": "http://minio:9000",
    }
    worker = WorkerOptions.load(None, environ)
    assert worker.kafka.bootstrap_servers == "kafka.example.org:9092"
    assert worker.rest.listening[0].port == 8084


def test_variables_that_are_set_win_over_the_file(env_file: Path) -> None:
    environ = {"CONNECT_BOOTSTRAP_SERVERS": "other:1", "AWS_REGION": "eu-west-1", "REST": "x"}
    apply_env_file(env_file, environ)
    assert environ["CONNECT_BOOTSTRAP_SERVERS"] == "other:1"
    assert environ["AWS_REGION"] == "eu-west-1"


@pytest.mark.parametrize(
    ("hostname", "servers"),
    [
        ("kafka", "kafka:9092"),
        ("kafka:19092", "kafka:19092"),
        ("192.168.1.100", "192.168.1.100:9092"),
        ("[::1]", "[::1]:9092"),
        ("[::1]:1", "[::1]:1"),
    ],
)
def test_the_brokers_port_is_9092_unless_written(hostname: str, servers: str) -> None:
    assert bootstrap_servers(hostname) == servers


def _register_sh(env_file: Path, port: int, **environ: str) -> subprocess.Popen[str]:
    """Start ``register.sh`` beside an ``.env``."""
    shutil.copy(REGISTER_SH, env_file.parent)
    return subprocess.Popen(
        [env_file.parent / "register.sh", f"http://localhost:{port}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},
    )


@pytest.mark.parametrize(
    "text",
    [ENV, ENV + MORE, ENV + "S3_REGION='eu-west-1' # here\r\nS3_OBJECT_EXTENSION= .x # y\n"],
    ids=["the least", "everything", "quotes and comments"],
)
def test_register_sh_makes_the_connectors_of_kafkeep_register(service, env_file, text: str) -> None:
    env_file.write_text(text)
    run = _register_sh(env_file, service.server_address[1])
    assert run.communicate(timeout=PATIENCE_S) == (
        "s3-sink-data: created\ns3-sink-timestamp: created\n",
        "",
    )
    assert run.returncode == 0
    made = sinetstream_connectors(parse_env(text.replace("\r", "")))
    assert service.connectors == {name: {**made[name], "name": name} for name in made}
    assert "unchanged" in register(service, env_file).stdout


def test_register_sh_waits_for_the_service(env_file) -> None:
    with Ports() as ports:
        port = ports.take()
        run = _register_sh(env_file, port)
        assert run.stderr is not None
        assert run.stderr.readline() == f"waiting for the service at http://localhost:{port}\n"
        with _serve(port) as service:
            service.refuse = [(503, {"error_code": 503, "message": "starting"})]
            out, _ = run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, out.count("created")) == (0, 2)


def test_register_sh_says_why_it_gives_up(service, env_file) -> None:
    port = service.server_address[1]
    service.refuse = [(400, {"error_code": 400, "message": "flush.size is wrong"})]
    run = _register_sh(env_file, port, KAFKEEP_REST_TOKEN="abc")
    assert "answered with 400" in (said := run.communicate(timeout=PATIENCE_S)[1])
    assert "flush.size is wrong" in said
    assert run.returncode == 1
    assert service.seen[0]["Authorization"] == "Bearer abc"
    service.refuse = [(409, {"message": "rebalance"})]
    run = _register_sh(env_file, port, REGISTER_TIMEOUT="0", KAFKEEP_REST_USER="u")
    assert "no service took s3-sink-data" in run.communicate(timeout=PATIENCE_S)[1]
    assert service.seen[1]["Authorization"] == "Basic dTo="
    env_file.write_text(ENV.replace("KAFKA_TOPIC", "TOPIC"))
    run = _register_sh(env_file, port)
    assert "KAFKA_TOPIC is not set in" in run.communicate(timeout=PATIENCE_S)[1]
    assert service.connectors == {}


def test_user_prints_a_line_that_the_service_takes(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["user", "alice", "--role", "operate"], input="pass:word\n")
    (tmp_path / "users").write_text(result.stdout)
    flags = {"bootstrap.servers": "k:1", "kafkeep.rest.users.file": str(tmp_path / "users")}
    assert list(WorkerOptions.load(None, {}, flags).security.basic_users) == ["alice"]
    assert "pass:word" not in result.stdout
