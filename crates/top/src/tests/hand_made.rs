//! Handmade snapshots.

use super::Screen;
use crate::snapshot::{Held, Id, Lock, Server, Snapshot, What};
use redis_lock_tool::{Program, Waiter, lines};

pub(super) const HERE: &str = "here:1";

pub(super) fn lock_id(key: &str) -> Id {
    let (server, what) = (HERE.to_owned(), What::Lock(key.into()));
    Id { server, what }
}

pub(super) fn lock(key: &str, owner: &str, held_ms: i64, waiters: i64) -> Lock {
    Lock {
        key: key.into(),
        held: Held {
            owner: owner.into(),
            token: 1000 + held_ms,
            holds: 1,
            lease_ms: 30_000,
            ttl_ms: 20_000,
            held_ms,
            waiters,
        },
        first: (waiters > 0).then(|| waiter("first", 7)),
    }
}

pub(super) fn waiter(owner: &str, client_id: i64) -> Waiter {
    Waiter {
        owner: owner.into(),
        client_id,
        waited_ms: 1500,
        left_ms: -1,
        ..Waiter::default()
    }
}

pub(super) fn program(session: i64, name: &str, client_id: i64) -> Program {
    Program {
        id: session,
        name: name.into(),
        client_id,
        ..Program::default()
    }
}

pub(super) fn snapshot(locks: &[Lock]) -> Snapshot {
    let server = Server {
        address: HERE.to_owned(),
        info: lines("redis_version:7.0.15"),
        searched: true,
        locks: locks.to_vec(),
        ..Server::default()
    };
    Snapshot::of(vec![server])
}

/// A screen where `orders` is held longest and `mail` has the most waiters.
pub(super) fn screen() -> Screen {
    Screen::of(snapshot(&[
        lock("mail", "mailer:web-1:7:a", 5_000, 3),
        lock("orders", "billing:web-2:8:b", 90_000, 1),
        lock("stock", "shop:web-3:9:c", 100, 0),
    ]))
}
