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
use redis_lock_client::ErrorKind;
use redis_lock_client::otel::Metrics;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testbed::{Server, eventually};

const PREFIX: &str = "redis_lock.client.";

#[derive(Clone, Debug, Default)]
struct Read {
    /// The name, unit and description of each metric.
    metrics: Vec<[String; 3]>,
    /// The count or the sum of every series, by its name without the prefix, and its attributes.
    series: BTreeMap<String, u64>,
}

#[derive(Clone, Default)]
struct Exporter(Arc<Mutex<Read>>);

impl PushMetricExporter for Exporter {
    async fn export(&self, all: &ResourceMetrics) -> OTelSdkResult {
        let mut read = Read::default();
        for metric in all.scope_metrics().flat_map(ScopeMetrics::metrics) {
            let about = [metric.name(), metric.unit(), metric.description()];
            read.metrics.push(about.map(str::to_owned));
            let name = metric.name().strip_prefix(PREFIX).expect("the prefix");
            let mut add = |of: Vec<&KeyValue>, value| {
                let mut of: Vec<_> = of
                    .iter()
                    .map(|it| format!("{}={}", it.key, it.value))
                    .collect();
                of.sort();
                read.series
                    .insert(format!("{name} {}", of.join(",")), value);
            };
            match metric.data() {
                AggregatedMetrics::F64(MetricData::Histogram(all)) => all
                    .data_points()
                    .for_each(|it| add(it.attributes().collect(), it.count())),
                AggregatedMetrics::U64(MetricData::Sum(all)) => all
                    .data_points()
                    .for_each(|it| add(it.attributes().collect(), it.value())),
                AggregatedMetrics::I64(MetricData::Sum(all)) => all.data_points().for_each(|it| {
                    let value = u64::try_from(it.value()).expect("none below zero");
                    add(it.attributes().collect(), value);
                }),
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

fn kind_of(key: &[u8]) -> Vec<KeyValue> {
    let key = String::from_utf8_lossy(key);
    let kind = key.split(':').next().unwrap_or_default();
    vec![KeyValue::new("kind", kind.to_owned())]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_waited_for_refused_lost_and_released() {
    let mut server = Server::start();
    let exporter = Exporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).with_interval(LONG);
    let provider = SdkMeterProvider::builder().with_reader(reader.build());
    let provider = provider.build();
    let read = || {
        provider.force_flush().expect("metrics");
        exporter.0.lock().expect("a reader").clone()
    };
    let await_one = |name: &str| eventually(|| read().series.get(name) == Some(&1), name);
    let metrics = Metrics::new(&provider.meter("tests")).attributes(kind_of);
    let locks = locks_at(server.port(), settings().observer(metrics));
    let place = format!("server=127.0.0.1:{}", server.port());
    let (down, ends) = (
        format!("session.detached {place}"),
        format!("session.disconnects {place}"),
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
    await_one("losses kind=stock");

    let guard = locks.lock("order:3").acquire().await.expect("a lock");
    let lock = locks.lock("order:3");
    let late = tokio::time::timeout(ms(100), lock.acquire()).await;
    assert!(late.is_err());
    await_waiters(&server, "order:3", 0);
    guard.release().await.expect("a release");
    let kept = locks.lock("order:4").acquire().await.expect("a lock");
    server.kill9();
    await_one(&down);
    is(
        locks.lock("order:2").try_acquire().await,
        ErrorKind::Unavailable,
    );
    let wanted = [
        ("acquire.duration kind=order,outcome=busy", 1),
        ("acquire.duration kind=order,outcome=cancelled", 1),
        ("acquire.duration kind=order,outcome=done", 4),
        ("acquire.duration kind=order,outcome=unavailable", 1),
        ("acquire.duration kind=stock,outcome=done", 1),
        ("hold.duration kind=order,outcome=done", 3),
        ("hold.duration kind=stock,outcome=lost", 1),
        (&down, 1),
        (&ends, 1),
        ("losses kind=stock", 1),
    ];
    let wanted = wanted.map(|(name, value)| (name.to_owned(), value));
    let read = read();
    assert_eq!(read.series, BTreeMap::from(wanted));
    drop(kept);

    // The metrics are those of the client for Go.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../go/otel/otel.go");
    let there = std::fs::read_to_string(path).expect("the package for Go");
    for part in read.metrics.iter().flatten() {
        assert!(there.contains(&format!("\"{part}\"")), "{part}");
    }
    assert_eq!(read.metrics.len(), 5);
}
