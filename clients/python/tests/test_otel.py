"""The observer for OpenTelemetry."""

import pathlib
import re

import pytest
import redis
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from redis_lock_client import LockBusy, LockLost, Locks, LockUnavailable
from redis_lock_client.otel import Metrics
from servers import eventually

CLIENTS = pathlib.Path(__file__).parents[2]


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
def meter(reader):
    return MeterProvider([reader]).get_meter("tests")


def metrics(reader):
    data = reader.get_metrics_data()
    return [metric for resource in data.resource_metrics for scope in resource.scope_metrics
            for metric in scope.metrics]


def read(reader):
    """The count or the sum of every series, by its name and attributes."""
    series = {}
    for metric in metrics(reader):
        for point in metric.data.data_points:
            attributes = ",".join(f"{name}={value}" for name, value in sorted(point.attributes.items()))
            series[f"{metric.name} {attributes}"] = point.count if hasattr(point, "count") else point.value
    return series


def test_it_measures(server, reader, meter):
    observer = Metrics(meter, attributes=lambda key: {"kind": key.split(":")[0]})
    place = f"server=localhost:{server.port}"
    down = f"redis_lock.client.session.detached {place}"
    with Locks(redis.Redis(port=server.port), observer=observer) as locks:
        grant = locks.lock("order:1")
        with pytest.raises(LockBusy):
            locks.lock("order:1", wait=0)
        grant.release()
        locks.lock("stock:1")
        server.redis.delete("stock:1")
        eventually(lambda: read(reader).get("redis_lock.client.losses kind=stock") == 1, "the loss")
        fixed = locks.lock("stock:2", lease=30)
        server.redis.delete("stock:2")
        with pytest.raises(LockLost):
            fixed.release()
        locks.lock("stock:3")  # so the session is needed
        server.order("kill")
        with pytest.raises(LockUnavailable):
            locks.lock("order:2", wait=0)
        eventually(lambda: read(reader).get(down) == 1, "the server to be down")
        assert read(reader) == {
            "redis_lock.client.acquire.duration kind=order,outcome=done": 1,
            "redis_lock.client.acquire.duration kind=order,outcome=busy": 1,
            "redis_lock.client.acquire.duration kind=order,outcome=unavailable": 1,
            "redis_lock.client.acquire.duration kind=stock,outcome=done": 3,
            "redis_lock.client.hold.duration kind=order,outcome=done": 1,
            "redis_lock.client.hold.duration kind=stock,outcome=lost": 1,
            "redis_lock.client.losses kind=stock": 2,
            f"redis_lock.client.session.disconnects {place}": 1,
            down: 1,
        }


def test_no_metric_tells_of_keys(server, reader, meter):
    with Locks(redis.Redis(port=server.port), observer=Metrics(meter)) as locks:
        locks.lock("order:1").release()
    assert read(reader) == {
        "redis_lock.client.acquire.duration outcome=done": 1, "redis_lock.client.hold.duration outcome=done": 1}


def test_the_metrics_are_those_of_the_client_of_go(reader, meter):
    observer = Metrics(meter)
    observer.acquired("key", 1.0, None)
    observer.released("key", 1.0, None)
    observer.lost("key", LockLost())
    observer.connection("server", LockUnavailable())
    there = (CLIENTS / "go" / "otel" / "otel.go").read_text()
    named = re.findall(r'meter\.\w+\("([\w.]+)", metric\.WithUnit\("([^"]+)"\)', there)
    assert sorted((it.name, it.unit) for it in metrics(reader)) == sorted(named)
    bounds = re.search(r"WithExplicitBucketBoundaries\(([^)]+)\)", there)[1]
    histogram = next(it for it in metrics(reader) if it.unit == "s")
    assert list(histogram.data.data_points[0].explicit_bounds) == [float(it) for it in bounds.split(",")]
