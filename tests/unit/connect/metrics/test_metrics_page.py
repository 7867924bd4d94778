"""The page that Prometheus reads, held against its own reader."""

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kafkeep.connect.metrics.metric import Metric, MetricsPage
from kafkeep.store.request_times import BOUNDS_S, OperationTimes

ODD = 'a "name"\\with\nall of it, ä'


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_labels_and_numbers_are_read_as_they_were_put() -> None:
    page = MetricsPage()
    lag = Metric("lag", "gauge", "How\\far\nbehind.", ("topic", "connector"))
    for value, labels in ((1, (ODD, "x")), (12345678.5, ("", ODD)), (float("inf"), ("a", "b"))):
        page.put(lag, value, *labels)
    assert samples(page.text()) == {
        ("lag", (("connector", "x"), ("topic", ODD))): 1,
        ("lag", (("connector", ODD), ("topic", ""))): 12345678.5,
        ("lag", (("connector", "b"), ("topic", "a"))): float("inf"),
    }


def test_it_is_written_as_prometheus_client_writes_it() -> None:
    registry = CollectorRegistry()
    theirs = Gauge("lag", "How\\far\nbehind.", ("topic", "connector"), registry=registry)
    page = MetricsPage()
    ours = Metric("lag", "gauge", "How\\far\nbehind.", ("topic", "connector"))
    for value in (0, 0.1, 1234567.0, 12345678901.5, 1e300):
        theirs.labels(str(value), ODD).set(value)
        page.put(ours, value, str(value), ODD)
    assert page.text() == generate_latest(registry).decode()


def test_histograms_add_up_and_summaries_have_two_numbers() -> None:
    page = MetricsPage()
    times = OperationTimes()
    for seconds in (0.0, 0.0, BOUNDS_S[0] * 1.5, 1e9):
        times.note(seconds, None)
    page.put_times(Metric("requests", "histogram", "Times.", ("op",)), times, "get")
    page.put_summary(Metric("gc", "summary", "Pauses."), 3, 1.5)
    found = samples(page.text())
    buckets = [found["requests_bucket", (("le", str(b)), ("op", "get"))] for b in BOUNDS_S]
    assert buckets == sorted(buckets) and buckets[0] == 2
    assert found["requests_bucket", (("le", "+Inf"), ("op", "get"))] == 4
    assert found["requests_count", (("op", "get"),)] == 4
    assert found["gc_count", ()] == 3 and found["gc_sum", ()] == 1.5
