"""How PySpark's driver and the JVM beside it find each other.

If the JVM that kafkeep starts in this way ends at once, ``spark/session.py`` lets PySpark start
one. This module does not import pyspark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GATEWAY_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
"""The class with the ``main`` of the JVM."""
GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"
_GATEWAY_SECRET = "PYSPARK_GATEWAY_SECRET"
_INFO_PATH = "_PYSPARK_DRIVER_CONN_INFO_PATH"


def gateway_environment(info: Path) -> dict[str, str]:
    """Return the variables that have a JVM write to ``info`` how to reach it."""
    return {_INFO_PATH: str(info)}


def read_gateway(info: Path) -> tuple[int, str]:
    """Return the port and the secret that a JVM wrote."""
    data = info.read_bytes()
    return int.from_bytes(data[:4], "big"), data[8:].decode()


@contextmanager
def named_gateway(port: int, secret: str) -> Iterator[None]:
    """Have a context that starts in the body use this JVM instead of starting one."""
    os.environ.update({GATEWAY_PORT: str(port), _GATEWAY_SECRET: secret})
    try:
        yield
    finally:
        del os.environ[GATEWAY_PORT], os.environ[_GATEWAY_SECRET]
