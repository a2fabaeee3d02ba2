//! Sentences of the contract, each by hand.

mod grants;
mod polls;

use std::time::Duration;

use crate::sessions::{
    Block, Event, EventKind, GrantName, LossReason, Now, Opening, PollRefusal, PollReply, Presence,
    SessionGrant, SessionTimeout, Sessions, Timeout,
};
use crate::{Deadline, Monotonic, UnixTime};

use super::world::{grants_of, id, lease, owner, token};

/// Half a millisecond before a whole one, by the wall clock.
const WALL: u64 = 1_000_000_500;

fn at(micros: u64) -> Now {
    Now {
        monotonic: Monotonic(micros),
        unix: UnixTime::from_micros(WALL + micros),
    }
}

fn ms(millis: u64) -> Now {
    at(millis * 1000)
}

/// The deadline of a lease of this length that starts then.
fn end(length: u64, start: Now) -> Deadline {
    lease(length).deadline_from(start.unix)
}

fn name(number: u64) -> GrantName<'static> {
    GrantName {
        database: 0,
        key: b"k",
        token: token(number),
    }
}

/// Sessions 1 to `count`, each polled by the client with its number.
fn open(count: u64, timeout: u64) -> Sessions {
    let mut sessions = Sessions::new();
    for number in 1..=count {
        let opening = Opening {
            user: b"u",
            database: 0,
            client_id: number,
            name: b"",
            timeout: SessionTimeout::from_millis(timeout).unwrap(),
        };
        assert!(sessions.open(id(number), opening, ms(0)));
    }
    sessions
}

fn join(sessions: &mut Sessions, session: u64, number: u64, length: u64, now: Now) {
    let deadline = end(length, now);
    sessions.join(
        id(session),
        name(number),
        &owner(number),
        lease(length),
        deadline,
        now,
    );
}

fn grant_of(sessions: &Sessions, number: u64) -> SessionGrant {
    let grants = grants_of(sessions, 1).into_iter();
    let mut grants = grants.filter(|grant| grant.token == token(number));
    grants.next().unwrap()
}

fn poll(
    sessions: &mut Sessions,
    client: u64,
    block: Block,
    now: Now,
) -> Result<Option<u64>, PollRefusal> {
    let polled = sessions.poll(id(1), b"u", 0, client, block, now);
    polled.map(|polled| polled.displaced)
}

/// The reply to a POLL that does not wait.
fn reply(sessions: &mut Sessions, client: u64, now: Now) -> PollReply {
    poll(sessions, client, Block::No, now).unwrap();
    sessions.answer(id(1), now).unwrap()
}

fn numbers(reply: &PollReply) -> Vec<u64> {
    reply.events.iter().map(|event| event.number).collect()
}
