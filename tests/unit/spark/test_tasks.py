"""How what tasks do travels to them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaGateway

from kafkeep.spark.tasks import has_own_properties


def classic(gateway: type) -> Any:
    """Return a session with a driver in this process, behind a gateway that nobody started."""
    context = SimpleNamespace(_gateway=gateway.__new__(gateway))
    return SimpleNamespace(_jsparkSession=object(), sparkContext=context)


@pytest.mark.parametrize(
    ("session", "own"),
    [
        (classic(ClientServer), True),
        (classic(JavaGateway), False),
        (SimpleNamespace(), False),
    ],
    ids=["pinned threads", "PYSPARK_PIN_THREAD=false", "Spark Connect"],
)
def test_work_travels_as_a_property_only_where_properties_are_the_threads_own(
    session: Any, own: bool
) -> None:
    assert has_own_properties(session) is own
