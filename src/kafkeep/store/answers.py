"""Checks that a success of S3 is one: an answer without what it must hold is not believed.

A proxy or a load balancer on a bad day answers 200 with an empty or foreign body. botocore takes
that for a listing without objects, or for an object without bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, unquote_plus

from kafkeep.errors import TransientError, UnknownOutcomeError

_HINT = "Check what stands before the store: a proxy or a load balancer may answer for it."


def field(answer: Mapping[str, Any], name: str, what: str, *, writes: bool = False) -> Any:
    """Return a field that S3 always sends; TransientError when it is missing.

    With ``writes`` an UnknownOutcomeError: whatever answered, the request may have been served.
    """
    if name in answer:
        return answer[name]
    kind = UnknownOutcomeError if writes else TransientError
    raise kind(f"{what}: the answer is no answer of S3, it has no {name}", hint=_HINT)


def check_page(page: Mapping[str, Any], asked: Mapping[str, Any], *, bucket: str | None) -> None:
    """Raise TransientError unless a page of a listing is of what was asked for.

    ``bucket`` is None where a bucket may answer under another name, as an access point does.
    """
    what = f"listing {asked['Prefix'] or asked['Bucket']}"
    field(page, "IsTruncated", what)
    for name, wanted in (("Name", bucket), ("Prefix", asked["Prefix"])):
        found = page.get(name)
        # Some stores encode a prefix without saying so.
        if wanted and found and wanted not in (found, unquote(found), unquote_plus(found)):
            raise TransientError(
                f"{what}: the answer is of {name.lower()} {found!r}, not {wanted!r}", hint=_HINT
            )
    if page["IsTruncated"] and field(page, "NextContinuationToken", what) == asked.get(
        "ContinuationToken"
    ):
        raise TransientError(f"{what}: the answer repeats its last page", hint=_HINT)


def read_body(answer: Mapping[str, Any], what: str) -> bytes:
    """Return the bytes of an object; TransientError when not all came, or not from S3."""
    body: bytes = answer["Body"].read()
    if len(body) != answer["ContentLength"]:
        raise TransientError(f"{what}: {len(body)} of {answer['ContentLength']} bytes came")
    field(answer, "ETag" if "ETag" in answer else "LastModified", what)
    return body


def read_range(answer: Mapping[str, Any], start: int, end: int, what: str) -> bytes:
    """Return bytes ``[start, end)``, also of a store that sends the whole object all the same."""
    body = read_body(answer, what)
    came = answer.get("ContentRange")
    if came is None:
        return body[start:end]
    if not came.startswith(f"bytes {start}-"):
        raise TransientError(f"{what}: the answer is of {came}", hint=_HINT)
    return body[: end - start]
