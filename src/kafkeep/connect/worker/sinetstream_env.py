"""SINETStream's ``.env`` file: parse it, set a worker's variables, make its two connectors."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from urllib.parse import urlsplit

from kafkeep.archive.names import check_topic_name
from kafkeep.errors import UsageError
from kafkeep.options.config_files import load_text
from kafkeep.options.kafka import parse_servers
from kafkeep.options.option import ConfigErrors

REQUIRED = (
    "BROKER_HOSTNAME",
    "KAFKA_TOPIC",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_KEY",
    "S3_BUCKET_NAME",
)
DEFAULTS = {"S3_REGION": "us-east-1", "S3_OBJECT_EXTENSION": ".bin", "REST_PORT": "8083"}
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_VARIABLE = re.compile(r"(?<!\\)\$(?=[A-Za-z_{])")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_CONNECT = "org.apache.kafka.connect.transforms."
_SINETSTREAM = "jp.ad.sinet.sinetstream.connect."


def parse_env(text: str) -> dict[str, str]:
    """Parse ``NAME=value`` lines as Compose does: quotes, comments, ``export``.

    UsageError names the line, without its value. ``$NAME`` in a value is refused, not substituted;
    in single quotes it is plain text.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        match = _LINE.fullmatch(bare)
        if match is None:
            raise UsageError(f"line {number} is not NAME=value")
        try:
            found[match[1]] = _value(match[2])
        except UsageError as error:
            raise UsageError(f"line {number}, {match[1]}: {error.message}") from error
    return found


def read_env_file(path: str | Path) -> dict[str, str]:
    """Read an ``.env`` file; UsageError names it."""
    text = load_text(path)
    try:
        return parse_env(text)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", hint=error.hint) from error


def apply_env_file(path: str | Path, environ: MutableMapping[str, str]) -> None:
    """Set variables for the worker and S3 from the file; those already set stay.

    BROKER_HOSTNAME becomes the bootstrap server (port 9092 unless written), REST_PORT rest.port,
    AWS_SECRET_KEY, S3_REGION and S3_ENDPOINT_URL their standard AWS names. ``AWS_…``,
    ``CONNECT_…`` and ``KAFKEEP_…`` variables of the file are used as they are.
    """
    values = read_env_file(path)
    found = {
        name: text
        for name, text in values.items()
        if name.startswith(("AWS_", "CONNECT_", "KAFKEEP_")) and name != "AWS_SECRET_KEY"
    }
    if broker := values.get("BROKER_HOSTNAME"):
        found.setdefault("CONNECT_BOOTSTRAP_SERVERS", bootstrap_servers(broker))
    for name, standard in (
        ("AWS_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"),
        ("S3_REGION", "AWS_REGION"),
        ("S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
        ("REST_PORT", "CONNECT_REST_PORT"),
    ):
        if values.get(name):
            found.setdefault(standard, values[name])
    if "S3_BUCKET_NAME" in values:
        found.setdefault("AWS_REGION", DEFAULTS["S3_REGION"])
    for name, text in found.items():
        if text and not environ.get(name):
            environ[name] = text


def bootstrap_servers(hostname: str) -> str:
    """Return BROKER_HOSTNAME as a bootstrap server."""
    host = hostname.strip()
    has_port = re.search(r":\d+$", host) and (host.count(":") == 1 or "]" in host)
    servers = host if has_port else f"{host}:9092"
    parse_servers(servers)
    return servers


def sinetstream_connectors(values: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the two connectors by name; ConfigErrors names each variable missing or wrong.

    They contain no credentials: the service has its own, from the same file.
    """
    given = {**DEFAULTS, **{name: text.strip() for name, text in values.items() if text.strip()}}
    _check(given)
    common = {
        "topics": given["KAFKA_TOPIC"],
        "s3.bucket.name": given["S3_BUCKET_NAME"],
        "s3.region": given["S3_REGION"],
    }
    if endpoint := given.get("S3_ENDPOINT_URL"):
        common["store.url"] = endpoint
    payload = {"format.bytearray.extension": given["S3_OBJECT_EXTENSION"]}
    return {
        "s3-sink-data": {**_COMMON, **_DATA, **payload, **common},
        "s3-sink-timestamp": {**_COMMON, **_TIMESTAMP, **common},
    }


def _check(given: Mapping[str, str]) -> None:
    wrong = {name: "missing" for name in REQUIRED if not given.get(name)}
    try:
        check_topic_name(given.get("KAFKA_TOPIC", "x"))
    except ValueError:
        wrong["KAFKA_TOPIC"] = "is not a topic's name"
    try:
        bootstrap_servers(given.get("BROKER_HOSTNAME", "x"))
    except UsageError:
        wrong["BROKER_HOSTNAME"] = "is not a host's name"
    parts = urlsplit(given.get("S3_ENDPOINT_URL", "http://x"))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        wrong["S3_ENDPOINT_URL"] = "is not an http:// or https:// address"
    if not given["REST_PORT"].isdecimal() or not 0 < int(given["REST_PORT"]) < 65536:
        wrong["REST_PORT"] = "is not a port"
    if wrong:
        raise ConfigErrors(wrong, hint="Set it in the .env file; docs/serve.md has an example.")


def _value(text: str) -> str:
    if text.startswith("'"):
        inner, rest = _quoted(text, "'")
    elif text.startswith('"'):
        inner, rest = _quoted(text, '"')
        _refuse_variables(inner)
        inner = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), inner)
    else:
        inner, rest = re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip(), ""
        _refuse_variables(inner)
    if rest.strip() and not rest.lstrip().startswith("#"):
        raise UsageError("there is text after the closing quote")
    return inner


def _quoted(text: str, sign: str) -> tuple[str, str]:
    body = r"(?:[^\"\\]|\\.)*" if sign == '"' else "[^']*"
    match = re.match(f"{sign}({body}){sign}", text)
    if match is None:
        raise UsageError("a quote is not closed")
    return match[1], text[match.end() :]


def _refuse_variables(text: str) -> None:
    if _VARIABLE.search(text):
        raise UsageError("variables are not substituted; put a literal $ in single quotes")


_COMMON = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "value.converter": f"{_SINETSTREAM}converters.SinetStreamConverter",
    "format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat",
    "format.bytearray.separator": "",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "tasks.max": "1",
    "flush.size": "1",
    "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
    "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
    "partition.duration.ms": "3600000",
    "timestamp.extractor": "Record",
    "locale": "C",
    "timezone": "Asia/Tokyo",
    "transforms.ExtractField.type": f"{_CONNECT}ExtractField$Value",
    "transforms.ByteArrayCast.type": f"{_SINETSTREAM}transforms.ByteArrayCast$Value",
}
_DATA = {
    "group.id": "kafka-connect-s3-sink-data",
    "transforms": "ExtractField,ByteArrayCast",
    "transforms.ExtractField.field": "msg",
}
_TIMESTAMP = {
    "group.id": "kafka-connect-s3-sink-timestamp",
    "transforms": "Timestamp,ExtractField,ByteArrayCast",
    "transforms.Timestamp.type": f"{_SINETSTREAM}transforms.MicrosecondTimestampConverter$Value",
    "transforms.Timestamp.field": "tstamp",
    "transforms.Timestamp.format": "yyyy-MM-dd'T'HH:mm:ss.SSS",
    "transforms.Timestamp.target.type": "string",
    "transforms.ExtractField.field": "tstamp",
    "format.bytearray.extension": "-timestamp.txt",
}
