"""Whatever a configuration says, it is told what is wrong with it, or that nothing is."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkeep.connect.model import RestError
from kafkeep.connect.plugins.classes import connectors, definitions
from kafkeep.connect.plugins.validate import Definitions
from kafkeep.connect.safety.restrictions import check_connector
from kafkeep.connect.worker.config_providers import Providers
from kafkeep.connect.worker.options import WorkerOptions

WORKER = WorkerOptions.load(
    None, {}, {"bootstrap.servers": "x:1", "kafkeep.allowed.folders": "/nowhere"}
)
HERE = Definitions(
    providers=Providers(), restrictions=lambda config: check_connector(config, WORKER)
)
RIGHT = {
    "topics": "t",
    "flush.size": "3",
    "format.class": "json",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "connect.s3.kcql": "INSERT INTO bucket:p SELECT * FROM t STOREAS `JSON`",
    **dict.fromkeys(("s3.bucket.name", "s3.bucket", "aws.s3.bucket.name"), "bucket"),
}
STEPS = [
    f"org.apache.kafka.connect.transforms.{n}" for n in ("Cast$Value", "RegexRouter", "Filter")
]
ODD = st.sampled_from(
    [
        *("", " ", "0", "-1", "1", "\u00b2", "9" * 30, "9" * 5_000, "1e5", "NaN", "inf", "true"),
        *("a,b", ",", "a:b", "a:b:c", "[", "(", "a{2,1}", "*", "../..", "/", "\0", "\n", "a=b"),
        *("s3://", "http://", "http://[", "http://a:99999", "http://u:p@h:1/x", "file:///\0"),
        *("yyyy", "'", "{{topic}}", "{{", "${file:x:y}", "${x}", "json", "5s", "+25:00"),
        *("2024-13-45", "t:0:9-2", "0-9", "com.x.Y$Z", "INSERT INTO b SELECT", *STEPS),
    ]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
BESIDE = [
    *("transforms", "transforms.a.type", "transforms.a.field", "transforms.a.spec"),
    *("transforms.a.regex", "transforms.a.predicate", "predicates", "predicates.a.type"),
    *("consumer.override.sasl.jaas.config", "consumer.override.bootstrap.servers", "targetTopic.t"),
    *("value.converter.schema.registry.url", "producer.override.ssl.keystore.location"),
]
KEYS = {
    plugin.class_name: [one["name"] for one in definitions(plugin)] + BESIDE
    for plugin in connectors()
}


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, str]:
    """Return a configuration that is right but for some of its keys."""
    name = draw(st.sampled_from(sorted(KEYS)))
    right = {key: text for key, text in RIGHT.items() if key in KEYS[name]}
    odd = draw(st.dictionaries(st.sampled_from(KEYS[name]), ODD, min_size=1, max_size=4))
    return {**right, **odd, "connector.class": name, "name": "n"}


@settings(max_examples=300, deadline=None)
@given(config=configurations())
def test_a_configuration_is_answered_whatever_it_says(config: dict[str, str]) -> None:
    answer = HERE.validate(config["connector.class"], config)
    errors = [text for one in answer["configs"] for text in one["value"]["errors"]]
    try:
        HERE.checked("n", config, None)
    except RestError as error:
        assert error.status == 400
        assert errors
