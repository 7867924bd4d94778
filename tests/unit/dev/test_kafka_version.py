from __future__ import annotations

from pathlib import Path

import pytest

from kafkeep.dev.kafka_version import KafkaVersion
from kafkeep.dev.state import DevOptions
from kafkeep.errors import UsageError


@pytest.mark.parametrize("text", ["newest", "3.9", "3.9.1-rc0", "", "3.9.1 "])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a version of Kafka"):
        DevOptions(folder=Path("f"), kafka=text)


def test_an_old_release_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"Kafka 2\.7\.2 is older than 2\.8\.0"):
        KafkaVersion.parse("2.7.2")


def test_releases_are_compared_by_number() -> None:
    assert not KafkaVersion.parse("3.10.0").needs_zookeeper(secure=True)
    assert KafkaVersion.parse("3.4.1").needs_zookeeper(secure=True)
    assert str(KafkaVersion.parse("3.4.1")) == "3.4.1"
