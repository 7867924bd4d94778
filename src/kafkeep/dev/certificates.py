"""A certificate authority of its own, and PEM files for brokers and clients."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from kafkeep.errors import EnvironmentFault

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, KeyUsage

CLIENT_NAME = "CN=kafkeep"
_LIFETIME = timedelta(days=365)


def make_certificates(folder: Path) -> None:
    """Write ca.pem, broker.pem and client.pem (each key, then chain) into ``folder``."""
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
