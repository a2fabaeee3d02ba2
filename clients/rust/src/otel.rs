//! Measures locks with OpenTelemetry: the feature `opentelemetry`, with version 0.33 of the crate.
//!
//! ```
//! use redis_lock_client::{Locks, otel::Metrics};
//!
//! let meter = opentelemetry::global::meter("shop"); // of the provider that your program has set
//! let locks = Locks::builder()
//!     .observer(Metrics::new(&meter))
//!     .single("redis://127.0.0.1/")?;
//! # Ok::<_, redis_lock_client::Error>(())
//! ```
//!
//! | metric | what | attributes |
//! | --- | --- | --- |
//! | `redis_lock.client.acquire.duration` | histogram, seconds: acquires, their wait included | `outcome`: `done`, `busy`, `unavailable`, `refused`, `deadlock`, `not-alone`, `lost`, `misuse`, `cancelled` |
//! | `redis_lock.client.hold.duration` | histogram, seconds: from the grant to the release | `outcome` of the release |
//! | `redis_lock.client.losses` | locks that ended before their holder released them | |
//! | `redis_lock.client.session.disconnects` | connections of sessions that were lost | `server` |
//! | `redis_lock.client.session.detached` | servers without such a connection now | `server` |

use crate::{Error, ErrorKind, Observer};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};
use std::fmt;
use std::time::Duration;

const SECONDS: [f64; 17] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0,
];

type Attributes = Box<dyn Fn(&[u8]) -> Vec<KeyValue> + Send + Sync>;

/// The observer that measures.
pub struct Metrics {
    attributes: Option<Attributes>,
    acquires: Histogram<f64>,
    held: Histogram<f64>,
    losses: Counter<u64>,
    cuts: Counter<u64>,
    down: UpDownCounter<i64>,
}

impl Metrics {
    /// Measures with this meter.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        let seconds = |name: &'static str, what: &'static str| {
            let histogram = meter.f64_histogram(name).with_description(what);
            histogram
                .with_unit("s")
                .with_boundaries(SECONDS.into())
                .build()
        };
        let counter = |name: &'static str, unit: &'static str, what: &'static str| {
            let counter = meter.u64_counter(name).with_description(what);
            counter.with_unit(unit).build()
        };
        let down = meter.i64_up_down_counter("redis_lock.client.session.detached");
        let down = down.with_description("Servers without such a connection now.");
        Self {
            attributes: None,
            acquires: seconds(
                "redis_lock.client.acquire.duration",
                "How long acquires took, their wait included, by outcome.",
            ),
            held: seconds(
                "redis_lock.client.hold.duration",
                "How long locks were held until their release, by its outcome.",
            ),
            losses: counter(
                "redis_lock.client.losses",
                "{lock}",
                "Locks that ended before their holder released them.",
            ),
            cuts: counter(
                "redis_lock.client.session.disconnects",
                "{connection}",
                "Connections of sessions that were lost.",
            ),
            down: down.with_unit("{server}").build(),
        }
    }

    /// Adds attributes that tell of the key of a lock. Give few different ones: each makes series of its own. Without it,
    /// no metric tells of keys.
    ///
    /// ```
    /// use opentelemetry::KeyValue;
    /// use redis_lock_client::otel::Metrics;
    ///
    /// let metrics = Metrics::new(&opentelemetry::global::meter("shop")).attributes(|key| {
    ///     let kind = if key.starts_with(b"lock:orders:") { "orders" } else { "other" };
    ///     vec![KeyValue::new("kind", kind)]
    /// });
    /// ```
    #[must_use]
    pub fn attributes(
        mut self,
        of: impl Fn(&[u8]) -> Vec<KeyValue> + Send + Sync + 'static,
    ) -> Self {
        self.attributes = Some(Box::new(of));
        self
    }

    fn of(&self, key: &[u8]) -> Vec<KeyValue> {
        self.attributes.as_ref().map_or(Vec::new(), |of| of(key))
    }

    fn record(&self, to: &Histogram<f64>, key: &[u8], took: Duration, outcome: &'static str) {
        let mut attributes = self.of(key);
        attributes.push(KeyValue::new("outcome", outcome));
        to.record(took.as_secs_f64(), &attributes);
    }
}

fn outcome(error: Option<&Error>) -> &'static str {
    error.map_or("done", |error| ErrorKind::name(error.kind()))
}

impl Observer for Metrics {
    fn acquired(&self, key: &[u8], took: Duration, error: Option<&Error>) {
        self.record(&self.acquires, key, took, outcome(error));
    }

    fn cancelled(&self, key: &[u8], took: Duration) {
        self.record(&self.acquires, key, took, "cancelled");
    }

    fn released(&self, key: &[u8], held: Duration, error: Option<&Error>) {
        self.record(&self.held, key, held, outcome(error));
    }

    fn lost(&self, error: &Error) {
        self.losses.add(1, &self.of(error.key().as_bytes()));
    }

    fn connection(&self, server: &str, broken: Option<&str>) {
        let address = [KeyValue::new("server", server.to_owned())];
        if broken.is_some() {
            self.cuts.add(1, &address);
        }
        self.down
            .add(if broken.is_some() { 1 } else { -1 }, &address);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
