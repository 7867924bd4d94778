"""The client of Spark Connect: its packages, its channel, its plans."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, cast

from pyspark.sql import SparkSession


def require_packages() -> None:
    """Raise ImportError where a package that Spark Connect needs is not installed."""
    try:
        import_module("pyspark.sql.connect.session")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise


def open_client(
    address: str, *, user: str, options: Mapping[str, int], retries: int
) -> SparkSession:
    """Open a session of its own; ``options`` are gRPC's, ``retries`` those of a request.

    In the public way, a session has neither: gRPC uses the proxies of the environment, and a server
    that is gone is asked for ten minutes.
    """
    try:
        client = import_module("pyspark.sql.connect.client")
        channel = client.DefaultChannelBuilder(address, list(options.items()))
        made = import_module("pyspark.sql.connect.session").SparkSession(channel, userId=user)
    except (AttributeError, TypeError, ModuleNotFoundError):
        require_packages()
        builder: Any = SparkSession.builder
        made = builder.remote(f"{address};user_id={user}").create()
    with suppress(AttributeError, TypeError, ModuleNotFoundError):
        policies = import_module("pyspark.sql.connect.client.retries")
        made.client.set_retry_policies([policies.DefaultPolicy(max_retries=retries)])
    return cast(SparkSession, made)


def explain(frame: Any) -> str:
    """Return the plan of a DataFrame as Spark prints it; empty when it cannot be had as a text."""
    with suppress(Exception):
        return str(frame._explain_string())
    return ""
