"""Connect to the resident session that a command has claimed."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from kafkeep.redact import remember
from kafkeep.spark.internals.connect import open_client
from kafkeep.spark.resident.claim import SessionClaim
from kafkeep.spark.resident.record import PROOF_KEY

_RETRIES = 3
"""Of a request to a server on the same machine: it answers at once, or it is gone."""


def open_session(claim: SessionClaim) -> SparkSession:
    """Open a session on the server of a claim; raise what Spark raises, or ConnectionError.

    Before anything else is sent, the server must prove that it is the one that wrote the record.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it would write to stderr
    record = claim.record
    remember(record.token, record.proof)
    session = open_client(
        f"{record.address}/;token={record.token}",
        user=str(os.getuid()),
        # gRPC would go through a proxy of the environment, also to this machine.
        options={"grpc.enable_http_proxy": 0},
        retries=_RETRIES,
    )
    if session.conf.get(PROOF_KEY, "") != record.digest_of(PROOF_KEY):
        raise ConnectionError("the server is not the one that was started")
    return session
