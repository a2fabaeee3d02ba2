//! What is told by `tracing`.

use crate::support::{locks, ms};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use testbed::{Expect, Server, cmd};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps the events that say which key they are about.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<(Level, String)>>>);

#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0
            .extend([field.name(), "=", &format!("{value:?}"), ";"]);
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redis_lock_client")
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = *event.metadata().level();
        self.0.lock().expect("events").push((level, fields.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_a_lock_is_told() {
    let listener = Listener::default();
    tracing::subscriber::set_global_default(listener.clone()).expect("the only listener");
    // Other tests are heard too: the key is this one's own.
    let told = |level: Level, what: &str| {
        let events = listener.0.lock().expect("events");
        let is_meant = |(of, text): &&(Level, String)| {
            *of == level && text.contains("key=life;") && text.contains(what)
        };
        events.iter().filter(is_meant).count()
    };
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("life").lease(ms(1500));
    let guard = lock.acquire().await.expect("a lock");
    assert_eq!(told(Level::DEBUG, "lock acquired"), 1);
    guard.extend(ms(2000)).await.expect("a lease");
    assert_eq!(told(Level::DEBUG, "lock renewed"), 1);
    guard.release().await.expect("a release");
    assert_eq!(told(Level::DEBUG, "lock released"), 1);
    assert_eq!(told(Level::WARN, ""), 0);

    let guard = lock.acquire().await.expect("a lock");
    cmd!(server.connection(), "DEL", "life").int();
    guard.lost().await;
    assert_eq!(told(Level::WARN, "lock lost"), 1);
}
