"""Java's key stores and trust stores as a TLS context: PEM, PKCS12 and JKS.

The content of a store determines its type, as in Java. Java's own ``keytool`` reads JKS. A private
key is on disk only as a 0600 file that is removed at once, because a TLS context loads keys only
from files.
"""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from kafkeep.errors import EnvironmentFault, UsageError
from kafkeep.options.config_files import check_path
from kafkeep.options.spark import find_java_tool

_PEM_LINE = re.compile(r"-----(BEGIN|END) ([A-Z0-9 ]+)-----")
_JKS_MAGIC = bytes.fromhex("feedfeed")
_TYPES = frozenset({"PEM", "JKS", "PKCS12"})
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_KEYTOOL_SECONDS = 60
_KEYTOOL_JVM = ("-J-Duser.language=en", "-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")
"""English output, which is parsed, and JVM options that make it start a third faster."""


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Build the TLS context that the ``ssl.*`` properties describe.

    Without a trust store, the system's certificate authorities are trusted. The broker's host name
    is checked unless ``ssl.endpoint.identification.algorithm`` is empty.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = _checks_host_name(properties)
    _set_versions(context, properties)
    _trust(context, properties)
    _identify(context, properties)
    return context


def server_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Build the TLS context of a listener. It needs a key, and a trust store to verify clients."""
    auth = properties.get("ssl.client.auth", "").strip().lower() or "none"
    if auth not in _CLIENT_AUTH:
        raise UsageError(f"ssl.client.auth={auth} is not one of {', '.join(_CLIENT_AUTH)}")
    if not (properties.get("ssl.keystore.location") or properties.get("ssl.keystore.key")):
        raise UsageError("https needs ssl.keystore.location, or ssl.keystore.key and its chain")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions(context, properties)
    _identify(context, properties)
    context.verify_mode = _CLIENT_AUTH[auth]
    if auth != "none":
        if not any(properties.get(f"ssl.truststore.{x}") for x in ("location", "certificates")):
            raise UsageError(f"ssl.client.auth={auth} needs ssl.truststore.location")
        _trust(context, properties)
    return context


def _checks_host_name(properties: Mapping[str, str]) -> bool:
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("", "https"):
        raise UsageError("ssl.endpoint.identification.algorithm must be https or empty")
    return algorithm == "https"


def _set_versions(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    names = properties.get("ssl.enabled.protocols") or "TLSv1.2,TLSv1.3"
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    single = properties.get("ssl.protocol", "TLS").strip()
    for name in [*wanted, *([] if single == "TLS" else [single])]:
        if name not in _VERSIONS:
            raise UsageError(f"TLS version {name} is not supported: use TLSv1.2 or TLSv1.3")
    versions = sorted(_VERSIONS[name] for name in wanted)
    if single != "TLS":
        versions = [version for version in versions if version <= _VERSIONS[single]]
    if not versions:
        raise UsageError("ssl.protocol and ssl.enabled.protocols leave no TLS version")
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _trust(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    _check_type(properties, "ssl.truststore.type")
    inline = properties.get("ssl.truststore.certificates")
    location = properties.get("ssl.truststore.location")
    if inline and location:
        raise UsageError("set ssl.truststore.location or ssl.truststore.certificates, not both")
    if not inline and not location:
        context.load_default_certs()
        return
    where = location or "ssl.truststore.certificates"
    if location:
        content = _read(location, "ssl.truststore.location")
        pem = _trusted_certificates(location, content, properties.get("ssl.truststore.password"))
    else:
        pem = _normal_pem(inline or "")
    if "BEGIN CERTIFICATE" not in pem:
        raise UsageError(f"{where} holds no certificate")
    try:
        context.load_verify_locations(cadata=pem)
    except ssl.SSLError as error:
        raise UsageError(f"{where} holds a certificate that cannot be read") from error
    # Java trusts every certificate in the store, even if it is not a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _trusted_certificates(location: str, content: bytes, password: str | None) -> str:
    if b"-----BEGIN" in content:
        return _normal_pem(content.decode("latin-1"))
    if content.startswith(_JKS_MAGIC):
        return _normal_pem(_keytool_list(location, password))
    try:
        store = pkcs12.load_pkcs12(content, _secret(password))
    except ValueError:  # an old cipher or a wrong password; keytool distinguishes them
        return _normal_pem(_keytool_list(location, password))
    found = [*store.additional_certs, *([store.cert] if store.cert else [])]
    return "".join(
        entry.certificate.public_bytes(serialization.Encoding.PEM).decode() for entry in found
    )


def _identify(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    _check_type(properties, "ssl.keystore.type")
    key_password = properties.get("ssl.key.password")
    location = properties.get("ssl.keystore.location")
    key, chain = (
        properties.get("ssl.keystore.key"),
        properties.get("ssl.keystore.certificate.chain"),
    )
    if location:
        content = _read(location, "ssl.keystore.location")
        pem, key_password = _key_and_chain(
            location, content, properties.get("ssl.keystore.password"), key_password
        )
    elif key and chain:
        pem = _normal_pem(key) + _normal_pem(chain)
    elif key or chain:
        raise UsageError("ssl.keystore.key and ssl.keystore.certificate.chain go together")
    else:
        return
    _load_chain(context, pem, key_password, location or "ssl.keystore.key")


def _key_and_chain(
    location: str, content: bytes, password: str | None, key_password: str | None
) -> tuple[str, str | None]:
    """Return key and chain as PEM, and the password of the key in it."""
    if b"-----BEGIN" in content:
        return _normal_pem(content.decode("latin-1")), key_password
    if content.startswith(_JKS_MAGIC):
        content, password = _jks_to_pkcs12(location, password, key_password)
    try:
        key, cert, others = pkcs12.load_key_and_certificates(content, _secret(password))
    except ValueError as error:
        raise UsageError(
            f"{location} cannot be opened: it is damaged, or ssl.keystore.password is wrong"
        ) from error
    if key is None or cert is None:
        raise UsageError(f"{location} holds no private key with a certificate")
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    chain = [cert, *others]
    certs = b"".join(c.public_bytes(serialization.Encoding.PEM) for c in chain)
    return (private + certs).decode(), None


def _load_chain(context: ssl.SSLContext, pem: str, password: str | None, where: str) -> None:
    handle, name = tempfile.mkstemp(prefix="kafkeep-", suffix=".pem")  # created with mode 0600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(pem)
        context.load_cert_chain(name, password=lambda: password or "")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise UsageError(
            f"{where} holds no usable private key and certificate",
            hint="Check ssl.key.password, and that key and certificate belong together.",
        ) from error
    finally:
        os.unlink(name)


def _check_type(properties: Mapping[str, str], key: str) -> None:
    kind = properties.get(key, "JKS").upper()
    if kind not in _TYPES:
        raise UsageError(f"{key}={kind} is not supported: use PEM, PKCS12 or JKS")


def _read(location: str, key: str) -> bytes:
    try:
        return check_path(location).read_bytes()
    except OSError as error:
        raise UsageError(f"{key}: cannot read {location}: {error.strerror}") from error
    except UsageError as error:
        raise UsageError(f"{key}: {error.message}") from error


def _normal_pem(text: str) -> str:
    """Return the PEM blocks with line breaks; in properties they are often one line."""
    blocks = []
    for label, found in _iter_pem_blocks(text):
        body = found
        if ":" not in found:  # keep the headers of the old encrypted form
            body = "\n" + "\n".join(re.findall(".{1,64}", "".join(found.split()))) + "\n"
        blocks.append(f"-----BEGIN {label}-----{body}-----END {label}-----\n")
    return "".join(blocks)


def _iter_pem_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the label and the content of each block, in one pass."""
    lines = list(_PEM_LINE.finditer(text))
    last_ends = {line[2]: line.start() for line in lines if line[1] == "END"}
    begin: re.Match[str] | None = None
    for line in lines:
        if begin is None:
            is_closed = line[1] == "BEGIN" and last_ends.get(line[2], -1) > line.start()
            begin = line if is_closed else None
        elif line[1] == "END" and line[2] == begin[2]:
            yield begin[2], text[begin.end() : line.start()]
            begin = None


def _secret(password: str | None) -> bytes | None:
    return password.encode() if password is not None else None


def _keytool_list(location: str, password: str | None) -> str:
    arguments = ["-list", "-rfc", "-keystore", location]
    if password is not None:
        arguments += ["-storepass:env", "KAFKEEP_STORE_PASSWORD"]
    return _keytool(location, arguments, {"KAFKEEP_STORE_PASSWORD": password or ""})


def _jks_to_pkcs12(
    location: str, password: str | None, key_password: str | None
) -> tuple[bytes, str]:
    """Return the store's first private key as PKCS12, and its password."""
    secrets = {
        "KAFKEEP_STORE_PASSWORD": password or "",
        "KAFKEEP_KEY_PASSWORD": key_password or password or "",
        "KAFKEEP_NEW_PASSWORD": (fresh := os.urandom(16).hex()),
    }
    alias = _first_key(location, secrets)
    with tempfile.TemporaryDirectory(prefix="kafkeep-") as folder:  # created with mode 0700
        target = Path(folder) / "store.p12"
        arguments = ["-importkeystore", "-noprompt", "-srckeystore", location]
        arguments += ["-srcstorepass:env", "KAFKEEP_STORE_PASSWORD", "-srcalias", alias]
        arguments += ["-srckeypass:env", "KAFKEEP_KEY_PASSWORD", "-destkeystore", str(target)]
        arguments += ["-deststoretype", "PKCS12"]
        arguments += ["-deststorepass:env", "KAFKEEP_NEW_PASSWORD"]
        arguments += ["-destkeypass:env", "KAFKEEP_NEW_PASSWORD"]
        _keytool(location, arguments, secrets)
        return target.read_bytes(), fresh


def _first_key(location: str, secrets: Mapping[str, str]) -> str:
    listing = ["-list", "-keystore", location, "-storepass:env", "KAFKEEP_STORE_PASSWORD"]
    for line in _keytool(location, listing, secrets).splitlines():
        if "PrivateKeyEntry" in line:
            return line.partition(",")[0].strip()
    raise UsageError(f"{location} holds no private key")


def _keytool(location: str, arguments: list[str], secrets: Mapping[str, str]) -> str:
    tool = find_java_tool("keytool") or shutil.which("keytool")
    if tool is None:
        raise EnvironmentFault(
            f"{location} is a JKS store, but keytool is not installed",
            hint="Install a JDK, or convert the store to PKCS12 or PEM.",
        )
    command = [tool, *_KEYTOOL_JVM, *arguments]
    environment = {**os.environ, **secrets}
    done = subprocess.run(
        command,
        env=environment,
        input="\n",
        capture_output=True,
        text=True,
        timeout=_KEYTOOL_SECONDS,
        check=False,
    )
    if done.returncode:
        reason = (done.stdout + done.stderr).strip().splitlines()
        raise UsageError(
            f"{location} cannot be opened: {reason[0] if reason else 'keytool failed'}",
            hint="Check the password of the store and of its key.",
        )
    return done.stdout
