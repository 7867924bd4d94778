"""What depends on the release of Kafka is as the real brokers have it."""

from __future__ import annotations

import pytest

from kafkeep.errors import PreflightError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.restore.topic_settings import SETTINGS_SINCE, SETTINGS_UNTIL, has_setting

pytestmark = [pytest.mark.integration, pytest.mark.core(suite="client")]


@pytest.mark.parametrize("key", [*SETTINGS_SINCE, *SETTINGS_UNTIL])
def test_the_release_has_the_setting_or_has_it_not(admin: Admin, topic_name: str, key: str) -> None:
    value = {"message.format.version": "2.8"}.get(key, "true" if key.endswith("able") else "1")
    try:
        admin.try_topic(topic_name, 1, configs={key: value})
        refused = ""
    except PreflightError as error:
        refused = error.message
    assert ("Unknown topic config name" not in refused) is has_setting(admin.broker_version(), key)
