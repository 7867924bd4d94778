from __future__ import annotations

import datetime
import ssl
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from kafkeep.errors import UsageError
from kafkeep.kafka.security.client_config import (
    check_properties,
    client_config,
    parse_jaas,
    property_notes,
)
from kafkeep.kafka.security.tls import tls_context
from kafkeep.options.kafka import KafkaOptions

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def config(**properties: str) -> dict[str, object]:
    return client_config(KafkaOptions("a:1", _dotted(properties)))


def _dotted(properties: dict[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in properties.items()}


@pytest.fixture(scope="module")
def identity() -> tuple[bytes, bytes, bytes, bytes]:
    """Return key, encrypted key and certificate as PEM, and a PKCS12 store (password: secret)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "someone")])
    now = datetime.datetime.now(datetime.UTC)
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = serialization.BestAvailableEncryption(b"secret")
    return (
        key.private_bytes(pem, pkcs8, serialization.NoEncryption()),
        key.private_bytes(pem, pkcs8, locked),
        cert.public_bytes(pem),
        pkcs12.serialize_key_and_certificates(b"me", key, cert, None, locked),
    )


def test_scram_login_is_taken_from_jaas() -> None:
    found = config(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_jaas_config=f'{SCRAM} required username="al\\"ice" password=\'p;w=1\';',
    )
    assert found["sasl_plain_username"] == 'al"ice'
    assert found["sasl_plain_password"] == "p;w=1"
    assert found["sasl_mechanism"] == "SCRAM-SHA-512"


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"ssl.engine.factory.class": "x", "security.protocol": "SSL"}, "ssl.engine.factory.class"),
        ({"security.providers": "x"}, "security.providers"),
        ({"ssl.cipher.suites": "x", "security.protocol": "SSL"}, "ssl.cipher.suites"),
        ({"bootstrap.severs": "x"}, "did you mean bootstrap.servers"),
        ({"nonsense": "x"}, "unknown property nonsense"),
        ({"ssl.truststore.location": "/x"}, "security.protocol is PLAINTEXT"),
        ({"security.protocol": "SSL", "sasl.mechanism": "PLAIN"}, "security.protocol is SSL"),
        ({"security.protocol": "TLS"}, "security.protocol=TLS"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "GSSAPI, Kafka's default"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "GSSAPI"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms"),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "com.evil.JndiLoginModule required;",
            },
            "com.evil.JndiLoginModule",
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f'{SCRAM} required username="a" password="b" tokenauth=true;',
            },
            "tokenauth",
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.login.callback.handler.class": "com.example.Handler",
                "sasl.jaas.config": f'{PLAIN} required username="a" password="b";',
            },
            "sasl.login.callback.handler.class",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(properties: dict[str, str], named: str) -> None:
    with pytest.raises(UsageError) as raised:
        client_config(KafkaOptions("a:1", properties))
    assert named in raised.value.message + (raised.value.hint or "")


def test_keys_without_meaning_are_noted() -> None:
    options = KafkaOptions("a:1", {"group.id": "g", "client.id": "c"})
    assert property_notes(options) == ["group.id has no effect here"]
    assert client_config(options)["client_id"] == "c"


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(UsageError, match=r"aaa.*zzz"):
        check_properties({"zzz": "1", "aaa": "2"})


@pytest.mark.parametrize("text", ["x", "x required", 'x required a="b;', "x required a b;", "x;"])
def test_unreadable_jaas_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_jaas(text + "hunter2")
    assert "hunter2" not in str(raised.value)


def test_oauth_reads_a_token_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc\n")
    found = config(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_jaas_config=f'{OAUTH} required extension_pool="p1";',
        sasl_oauthbearer_token_endpoint_url=token.as_uri(),
    )
    provider = found["sasl_oauth_token_provider"]
    assert provider.token() == "abc"  # type: ignore[attr-defined]
    assert provider.extensions() == {"pool": "p1"}  # type: ignore[attr-defined]


def test_host_names_are_checked_unless_switched_off() -> None:
    assert tls_context({}).check_hostname
    context = tls_context({"ssl.endpoint.identification.algorithm": ""})
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_tls_versions_are_limited_as_asked() -> None:
    context = tls_context({"ssl.enabled.protocols": "TLSv1.2"})
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    assert tls_context({}).minimum_version is ssl.TLSVersion.TLSv1_2
    with pytest.raises(UsageError, match=r"TLSv1\.1"):
        tls_context({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"})


def test_inline_pem_in_one_line_is_understood(identity: tuple[bytes, ...]) -> None:
    key, _, cert, _ = (part.decode("latin-1") for part in identity)
    context = tls_context(
        {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": cert.replace("\n", " "),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key.replace("\n", " "),
            "ssl.keystore.certificate.chain": cert.replace("\n", " "),
        }
    )
    assert context.cert_store_stats()["x509"] == 1


def test_an_encrypted_key_needs_its_password(tmp_path: Path, identity: tuple[bytes, ...]) -> None:
    store = tmp_path / "key.pem"
    store.write_bytes(identity[1] + identity[2])
    tls_context({"ssl.keystore.location": str(store), "ssl.key.password": "secret"})
    with pytest.raises(UsageError, match=r"key\.pem"):
        tls_context({"ssl.keystore.location": str(store), "ssl.key.password": "wrong"})


def test_pkcs12_and_jks_stores_give_the_same_identity(
    tmp_path: Path, identity: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    p12, jks = tmp_path / "s.p12", tmp_path / "s.jks"
    p12.write_bytes(identity[3])
    command = ["keytool", "-importkeystore", "-noprompt", "-srckeystore", str(p12)]
    command += ["-srcstorepass", "secret", "-destkeystore", str(jks), "-deststoretype", "JKS"]
    command += ["-deststorepass", "store-secret", "-destkeypass", "key-secret", "-srcalias", "me"]
    subprocess.run([*command, "-srckeypass", "secret"], check=True, capture_output=True)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    tls_context({"ssl.keystore.location": str(p12), "ssl.keystore.password": "secret"})
    tls_context(
        {
            "ssl.keystore.location": str(jks),
            "ssl.keystore.password": "store-secret",
            "ssl.key.password": "key-secret",
        }
    )
    assert list(temporary.iterdir()) == []
    for store, kind in ((p12, "PKCS12"), (jks, "JKS")):
        with pytest.raises(UsageError, match="cannot be opened"):
            tls_context(
                {
                    "ssl.keystore.location": str(store),
                    "ssl.keystore.type": kind,
                    "ssl.keystore.password": "not-this",
                }
            )


def test_private_keys_touch_the_disk_unreadable_for_others(
    tmp_path: Path, identity: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def watch(context: ssl.SSLContext, name: str, **more: object) -> None:
        seen.append(stat.S_IMODE(Path(name).stat().st_mode))
        load(context, name, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watch)
    store = tmp_path / "s.p12"
    store.write_bytes(identity[3])
    tls_context({"ssl.keystore.location": str(store), "ssl.keystore.password": "secret"})
    assert seen == [0o600]


def test_a_store_that_is_missing_or_empty_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ssl\.truststore\.location"):
        tls_context({"ssl.truststore.location": str(tmp_path / "none")})
    with pytest.raises(UsageError, match="BCFKS"):
        tls_context({"ssl.truststore.type": "BCFKS"})
    with pytest.raises(UsageError, match="no certificate"):
        tls_context({"ssl.truststore.certificates": "nothing"})
