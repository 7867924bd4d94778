"""Secured listeners beside the plain one, and the client.properties that open them.

================  ========================================  ==============================
listener          the client shows                          client files
================  ========================================  ==============================
``SASL_SSL``      a password (SCRAM or PLAIN)               scram, scram256, plain, limited
``TLS``           nothing                                   tls, tls-jks, tls-pkcs12
``MTLS``          a certificate                             mtls
================  ========================================  ==============================

The user ``kafkeep`` may do everything; ``limited`` may log in, and has no rights at all.

A certificate authority of its own, and PEM files for brokers and clients.
"""

from __future__ import annotations

import ipaddress
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from kafkeep.dev.process import HOST
from kafkeep.dev.state import SecureStatus
from kafkeep.errors import EnvironmentFault

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, KeyUsage


CLIENT_NAME = "CN=kafkeep"
_LIFETIME = timedelta(days=365)


def make_certificates(folder: Path) -> None:
    """Write ca.pem, broker.pem and client.pem (each key, then chain) into ``folder``.

    The broker's are in broker.p12 too: Kafka 2.8 takes no PEM key without a password.
    """
    try:
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise EnvironmentFault(
            "secured listeners need the Python package cryptography",
            hint="Install it: pip install cryptography.",
        ) from error
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("kafkeep dev CA", authority_key, None)
    (folder / "ca.pem").write_bytes(_pem(authority))
    for name, file in (("localhost", "broker.pem"), (CLIENT_NAME[3:], "client.pem")):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key, (authority, authority_key))
        path = folder / file
        path.touch(mode=0o600)
        path.write_bytes(_key_pem(key) + _pem(certificate) + _pem(authority))
        if file == "broker.pem":
            _write_key_store(folder / "broker.p12", key, certificate, authority)


def _certificate(
    name: str,
    key: EllipticCurvePrivateKey,
    issuer: tuple[Certificate, EllipticCurvePrivateKey] | None,
) -> Certificate:
    from cryptography import x509  # noqa: PLC0415 (an extra)
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 (an extra)

    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signer = issuer[1] if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if issuer is None:
        builder = builder.add_extension(_signing_only(), critical=True)
    else:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _signing_only() -> KeyUsage:
    # Python 3.13 checks chains strictly: an authority must say that it signs certificates.
    from cryptography.x509 import KeyUsage  # noqa: PLC0415 (an extra)

    return KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 (an extra)

    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 (an extra)

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write_key_store(
    path: Path, key: EllipticCurvePrivateKey, certificate: Certificate, authority: Certificate
) -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 (an extra)
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415 (an extra)

    lock = serialization.BestAvailableEncryption(_STORE_PASSWORD.encode())
    path.touch(mode=0o600)
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(b"broker", key, certificate, [authority], lock)
    )


LISTENERS = ("SASL_SSL", "TLS", "MTLS")
_USERS = {"kafkeep": "kafkeep-secret", "limited": "limited-secret"}
_STORE_PASSWORD = "kafkeep-store"
_MODULES = "org.apache.kafka.common.security"
_MECHANISMS = {
    "SCRAM-SHA-256": f"{_MODULES}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_MODULES}.scram.ScramLoginModule",
    "PLAIN": f"{_MODULES}.plain.PlainLoginModule",
}
SCRAM_ARGUMENTS = tuple(
    argument
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    for user, password in _USERS.items()
    for argument in ("--add-scram", f"{mechanism}=[name={user},password={password}]")
)


SCRAM_COMMANDS = tuple(
    (
        *("--alter", "--entity-type", "users", "--entity-name", user, "--add-config"),
        f"SCRAM-SHA-256=[password={password}],SCRAM-SHA-512=[password={password}]",
    )
    for user, password in _USERS.items()
)
"""What kafka-configs needs to add the same users to running brokers."""


def port_name(listener: str, node_id: int) -> str:
    """Return the name a secured listener's port is remembered under."""
    return f"{listener.lower()}-{node_id}"


def secure_properties(folder: Path, ports: Mapping[str, int], node_id: int) -> dict[str, str]:
    """Return the settings that add the secured listeners to a broker's own."""
    plain = f"PLAINTEXT://{HOST}:{ports[f'broker-{node_id}']}"
    clients = ",".join(
        [plain, *(f"{one}://{HOST}:{ports[port_name(one, node_id)]}" for one in LISTENERS)]
    )
    users = " ".join(f'user_{user}="{password}"' for user, password in _USERS.items())
    sasl = "listener.name.sasl_ssl"
    return {
        "listeners": clients,
        "advertised.listeners": clients,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,TLS:SSL,MTLS:SSL",
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        f"{sasl}.scram-sha-256.sasl.jaas.config": f"{_MECHANISMS['SCRAM-SHA-256']} required;",
        f"{sasl}.scram-sha-512.sasl.jaas.config": f"{_MECHANISMS['SCRAM-SHA-512']} required;",
        f"{sasl}.plain.sasl.jaas.config": f"{_MECHANISMS['PLAIN']} required {users};",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(_secrets(folder) / "broker.p12"),
        "ssl.keystore.password": _STORE_PASSWORD,
        "ssl.key.password": _STORE_PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(_secrets(folder) / "ca.pem"),
        "listener.name.mtls.ssl.client.auth": "required",
        # Plain and TLS clients are ANONYMOUS; the brokers among themselves too.
        "super.users": f"User:ANONYMOUS;User:kafkeep;User:{CLIENT_NAME}",
    }


def make_secrets(folder: Path) -> None:
    """Make certificates, trust stores and client files once; later calls change nothing."""
    secrets = _secrets(folder)
    if (secrets / "mtls.properties").exists() and (secrets / "broker.p12").exists():
        return
    shutil.rmtree(secrets, ignore_errors=True)
    secrets.mkdir(mode=0o700, exist_ok=True)
    make_certificates(secrets)
    pem = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(secrets / "ca.pem")}
    for name, mechanism, user in (
        ("scram", "SCRAM-SHA-512", "kafkeep"),
        ("scram256", "SCRAM-SHA-256", "kafkeep"),
        ("plain", "PLAIN", "kafkeep"),
        ("limited", "SCRAM-SHA-512", "limited"),
    ):
        _write(secrets, name, {**_login(mechanism, user), **pem})
    _write(secrets, "tls", {"security.protocol": "SSL", **pem})
    for kind in ("JKS", "PKCS12"):
        _write_java_truststore(secrets, kind)
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(secrets / "client.pem")}
    _write(secrets, "mtls", {"security.protocol": "SSL", **pem, **own})


def secure_status(folder: Path, ports: Mapping[str, int], brokers: int) -> tuple[SecureStatus, ...]:
    """Return every secured way in that has a client file."""
    found = []
    for file in sorted(_secrets(folder).glob("*.properties")):
        protocol = "SASL_SSL" if "SASL_SSL" in file.read_text() else "TLS"
        listener = "MTLS" if file.stem == "mtls" else protocol
        bootstrap = ",".join(
            f"{HOST}:{ports[port_name(listener, node)]}" for node in range(1, brokers + 1)
        )
        found.append(SecureStatus(file.stem, bootstrap, str(file)))
    return tuple(found)


def _login(mechanism: str, user: str) -> dict[str, str]:
    login = f'{_MECHANISMS[mechanism]} required username="{user}" password="{_USERS[user]}";'
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": login,
    }


def _write_java_truststore(secrets: Path, kind: str) -> None:
    """Make a trust store of Java's own kind, where keytool is there to make it."""
    keytool = shutil.which("keytool")
    if keytool is None:
        return
    store = secrets / f"truststore.{kind.lower()}"
    argv = [keytool, "-importcert", "-noprompt", "-alias", "ca", "-file", str(secrets / "ca.pem")]
    argv += ["-keystore", str(store), "-storetype", kind, "-storepass", _STORE_PASSWORD]
    subprocess.run(argv, capture_output=True, check=True)
    settings = {
        "security.protocol": "SSL",
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(store),
        "ssl.truststore.password": _STORE_PASSWORD,
    }
    _write(secrets, f"tls-{kind.lower()}", settings)


def _write(secrets: Path, name: str, settings: Mapping[str, str]) -> None:
    file = secrets / f"{name}.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    file.chmod(0o600)


def _secrets(folder: Path) -> Path:
    return folder / "secrets"
