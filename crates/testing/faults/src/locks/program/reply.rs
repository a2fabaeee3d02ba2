//! The reply to a POLL.

use history::{Limit, Moment};
use redis::Value;
use testbed::Expect;

/// A session's report about a call or a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) session: u64,
    /// When the reply was read that brought it.
    pub(crate) heard: Moment,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// `granted`
    Granted {
        token: u64,
        holds: u32,
        lease: u64,
        limit: Limit,
    },
    /// `ended`, and why.
    Ended(String),
    /// `lost` or `taken`: this grant.
    Gone(u64),
}

/// An event by its number, its lock and its owner.
pub(super) struct Told {
    pub(super) number: i64,
    pub(super) key: String,
    pub(super) owner: String,
    pub(super) kind: String,
    pub(super) what: What,
}

/// `sure-ms` and the events.
pub(super) fn read(reply: Value) -> (i64, Vec<Told>) {
    let mut fields = reply.fields();
    let mut take = |name: &str| fields.remove(name).expect("a field of a reply to a POLL");
    let events = take("events").items().into_iter().map(event).collect();
    (take("sure-ms").int(), events)
}

fn event(event: Value) -> Told {
    let mut parts = event.items().into_iter();
    let mut next = || parts.next().expect("a part of an event");
    let (number, kind) = (next().int(), next().text());
    let (key, owner) = (next().text(), next().text());
    let what = match kind.as_str() {
        "granted" => What::Granted {
            token: next().number(),
            holds: next().number(),
            lease: next().number(),
            limit: Limit::new(next().number()),
        },
        "ended" => What::Ended(next().text()),
        "lost" | "taken" => What::Gone(next().number()),
        other => panic!("an event of an unknown kind: {other}"),
    };
    Told {
        number,
        key,
        owner,
        kind,
        what,
    }
}
