//! The metrics of OpenTelemetry, with the names, units and attributes that all clients have.

use crate::support::{LONG, await_waiters, delete, in_line, is, locks_at, ms, settings};
use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Temporality};
use redis_lock_client::otel::Metrics;
use redis_lock_client::{ErrorKind, Observer};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testbed::{Server, eventually};

/// Each metric with its unit and description, and the count or the sum of every series.
#[derive(Clone, Debug, Default)]
struct Read {
    metrics: BTreeMap<String, (String, String)>,
    series: BTreeMap<String, u64>,
    seconds: f64,
}

impl Read {
    fn add<'a>(&mut self, name: &str, of: impl Iterator<Item = &'a KeyValue>, value: u64) {
        let mut of: Vec<_> = of.map(|it| format!("{}={}", it.key, it.value)).collect();
        of.sort();
        self.series
            .insert(format!("{name} {}", of.join(",")), value);
    }
}

#[derive(Clone, Default)]
struct Exporter(Arc<Mutex<Read>>);

impl PushMetricExporter for Exporter {
    async fn export(&self, all: &ResourceMetrics) -> OTelSdkResult {
        let mut read = Read::default();
        for metric in all.scope_metrics().flat_map(ScopeMetrics::metrics) {
            let name = metric.name();
            let of = (metric.unit().to_owned(), metric.description().to_owned());
            read.metrics.insert(name.to_owned(), of);
            match metric.data() {
                AggregatedMetrics::F64(MetricData::Histogram(all)) => {
                    for point in all.data_points() {
                        read.add(name, point.attributes(), point.count());
                        read.seconds += point.sum();
                    }
                }
                AggregatedMetrics::U64(MetricData::Sum(all)) => {
                    for point in all.data_points() {
                        read.add(name, point.attributes(), point.value());
                    }
                }
                AggregatedMetrics::I64(MetricData::Sum(all)) => {
                    for point in all.data_points() {
                        let value = u64::try_from(point.value()).expect("none below zero");
                        read.add(name, point.attributes(), value);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        *self.0.lock().expect("a reader") = read;
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

struct Reader {
    exporter: Exporter,
    provider: SdkMeterProvider,
}

impl Reader {
    fn new() -> Self {
        let exporter = Exporter::default();
        let reader = PeriodicReader::builder(exporter.clone()).with_interval(LONG);
        let provider = SdkMeterProvider::builder().with_reader(reader.build());
        let provider = provider.build();
        Self { exporter, provider }
    }

    fn metrics(&self) -> Metrics {
        Metrics::new(&self.provider.meter("tests"))
    }

    fn read(&self) -> Read {
        self.provider.force_flush().expect("metrics");
        self.exporter.0.lock().expect("a reader").clone()
    }

    fn is(&self, name: &str, value: u64) -> bool {
        self.read().series.get(name) == Some(&value)
    }
}

fn kind_of(key: &[u8]) -> Vec<KeyValue> {
    let key = String::from_utf8_lossy(key);
    let kind = key.split(':').next().unwrap_or_default();
    vec![KeyValue::new("kind", kind.to_owned())]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_waited_for_refused_lost_and_released() {
    let mut server = Server::start();
    let reader = Reader::new();
    let metrics = reader.metrics().attributes(kind_of);
    let locks = locks_at(server.port(), settings().observer(metrics));
    let place = format!("server=127.0.0.1:{}", server.port());
    let (down, ends) = (
        format!("redis_lock.client.session.detached {place}"),
        format!("redis_lock.client.session.disconnects {place}"),
    );
    let guard = locks.lock("order:1").acquire().await.expect("a lock");
    assert!(locks.lock("order:1").try_acquire().await.is_err());
    let waiting = in_line(&server, &locks.lock("order:1"), 1);
    guard.release().await.expect("a release");
    let guard = waiting.await.expect("a task").expect("a lock");
    guard.release().await.expect("a release");

    let guard = locks.lock("stock:1").acquire().await.expect("a lock");
    delete(&server, "stock:1");
    guard.lost().await;
    is(guard.release().await, ErrorKind::Lost);
    eventually(
        || reader.is("redis_lock.client.losses kind=stock", 1),
        "the loss",
    );

    let guard = locks.lock("order:3").acquire().await.expect("a lock");
    let lock = locks.lock("order:3");
    let late = tokio::time::timeout(ms(100), lock.acquire()).await;
    assert!(late.is_err());
    await_waiters(&server, "order:3", 0);
    guard.release().await.expect("a release");
    let kept = locks.lock("order:4").acquire().await.expect("a lock");
    server.kill9();
    eventually(|| reader.is(&down, 1), "the server to be down");
    is(
        locks.lock("order:2").try_acquire().await,
        ErrorKind::Unavailable,
    );
    let wanted = [
        (
            "redis_lock.client.acquire.duration kind=order,outcome=busy",
            1,
        ),
        (
            "redis_lock.client.acquire.duration kind=order,outcome=cancelled",
            1,
        ),
        (
            "redis_lock.client.acquire.duration kind=order,outcome=done",
            4,
        ),
        (
            "redis_lock.client.acquire.duration kind=order,outcome=unavailable",
            1,
        ),
        (
            "redis_lock.client.acquire.duration kind=stock,outcome=done",
            1,
        ),
        ("redis_lock.client.hold.duration kind=order,outcome=done", 3),
        ("redis_lock.client.hold.duration kind=stock,outcome=lost", 1),
        (&down, 1),
        (&ends, 1),
        ("redis_lock.client.losses kind=stock", 1),
    ];
    let wanted = wanted.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(reader.read().series, BTreeMap::from(wanted));
    drop(kept);
}

/// Those of the client for Go.
#[test]
fn the_metrics_are_those_of_the_client_for_go() {
    let reader = Reader::new();
    let metrics = reader.metrics();
    metrics.acquired(b"k", ms(1000), None);
    metrics.released(b"k", ms(1000), None);
    metrics.connection("server", Some("it is down"));
    let read = reader.read();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../go/otel/otel.go");
    let there = std::fs::read_to_string(path).expect("the package for Go");
    for (name, (unit, what)) in &read.metrics {
        for part in [name, unit, what] {
            assert!(there.contains(&format!("\"{part}\"")), "{part}");
        }
    }
    assert_eq!(read.metrics.len(), 4);
}
