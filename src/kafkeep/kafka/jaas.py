"""Reads ``sasl.jaas.config``: one login module, its flag and its options."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kafkeep.errors import UsageError

_TOKEN = re.compile(
    r"""\s*(?: "((?:[^"\\]|\\.)*)" | '((?:[^'\\]|\\.)*)' | ([^\s"'=;]+) | ([=;]) )""",
    re.VERBOSE,
)
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "AWS_MSK_IAM": "software.amazon.msk.auth.iam.IAMLoginModule",
}
"""The one login module of each mechanism there is."""
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})


@dataclass(frozen=True)
class LoginModule:
    """A login module by its Java class; the options may hold secrets."""

    name: str
    options: dict[str, str] = field(repr=False)

    @property
    def short_name(self) -> str:
        """The class without its package."""
        return self.name.rpartition(".")[2]


def parse_jaas(text: str) -> LoginModule:
    """Read one login module; UsageError never quotes the text, which holds secrets."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != ";" or tokens[1].lower() not in _FLAGS:
        raise UsageError(
            "sasl.jaas.config is not of the form '<login module> required key=\"value\";'"
        )
    body = tokens[2:-1]
    if ";" in body:
        raise UsageError("sasl.jaas.config names more than one login module")
    if len(body) % 3 or any(sign != "=" for sign in body[1::3]):
        raise UsageError("sasl.jaas.config has an option that is not key=value")
    return LoginModule(tokens[0], dict(zip(body[::3], body[2::3], strict=True)))


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UsageError("sasl.jaas.config cannot be read: a quote is not closed")
        double, single, word, sign = match.groups()
        quoted = double if double is not None else single
        tokens.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else word or sign)
        at = match.end()
    return tokens
