//! What a line costs in the core. To be run under callgrind, or by the clock:
//!
//! * `core-line turns waiters times`: the first in line leaves and joins again as the last, and each time
//!   it is judged whether that would be a deadlock;
//! * `core-line unjudged waiters times`: the same without the judgement;
//! * `core-line circle owners times`: the search that finds a circle of so many owners; tells its time.

use std::env;
use std::hint::black_box;
use std::time::Instant;

use redis_lock_core::deadlock::Search;
use redis_lock_core::{
    Calls, Deadline, Grant, Holder, Holders, Holds, Lease, Limit, Monotonic, Owner, OwnerBuf,
    Token, UnixTime, Waiter,
};

const NOW: UnixTime = UnixTime::from_micros(1_795_000_000_000_000);
const LINE: (i32, &[u8]) = (0, b"line");

fn main() {
    let words: Vec<_> = env::args().skip(1).collect();
    let number = |at: usize| -> usize {
        let word = words.get(at).and_then(|word| word.parse().ok());
        word.expect("what to do, and two numbers")
    };
    match words.first().map(String::as_str) {
        Some("turns") => turns(number(1), number(2), true),
        Some("unjudged") => turns(number(1), number(2), false),
        Some("circle") => circle(number(1), number(2)),
        _ => panic!("turns, unjudged or circle"),
    }
}

fn turns(waiters: usize, times: usize, judged: bool) {
    let mut calls = Calls::default();
    for number in 0..waiters {
        join(&mut calls, &name(number), LINE.1);
    }
    let holder = name(waiters);
    let holders = held(&holder);
    for _ in 0..times {
        let first = calls.first(LINE.0, LINE.1).expect("a call");
        let call = calls.remove(first).expect("a call");
        let owner = call.waiter.owner.as_owner();
        if judged {
            let limit = black_box(Limit::ONE);
            let search = Search::begin(&calls, owner, LINE, limit, Some(&holders), NOW);
            assert!(black_box(search).is_none());
        }
        join(&mut calls, owner.bytes(), LINE.1);
    }
}

/// Each owner holds the lock of its name and waits for that of the next; the last wants that of the first.
fn circle(owners: usize, times: usize) {
    let mut calls = Calls::default();
    let names: Vec<_> = (0..owners).map(name).collect();
    for (owner, next) in names.iter().zip(&names[1..]) {
        join(&mut calls, owner, next);
    }
    let caller = owner(&names[owners - 1]);
    let begin = Instant::now();
    for _ in 0..times {
        let first = held(&names[0]);
        let lock = (0, &*names[0]);
        let limit = black_box(Limit::ONE);
        let search = Search::begin(&calls, caller, lock, limit, Some(&first), NOW);
        let mut search = search.expect("a holder that waits");
        let mut found = None;
        while let Some(lock_id) = search.next_lock(&calls) {
            found = search.look(&calls, Some(&held(&lock_id.key)), NOW);
        }
        let found = found.expect("a circle");
        assert_eq!(black_box(found).waits().len(), owners);
    }
    let each = begin.elapsed() / u32::try_from(times).expect("a number of searches");
    println!("a circle of {owners}: {each:?}");
}

fn name(number: usize) -> Vec<u8> {
    format!("2a9f7c1e-5b60-4d38-9e1f-{number:012}").into_bytes()
}

fn owner(name: &[u8]) -> Owner<'_> {
    Owner::new(name).expect("an owner")
}

fn held(name: &[u8]) -> Holders<'_> {
    Holders::Exclusive(Holder {
        owner: owner(name),
        grant: Grant {
            token: Token::MAX,
            holds: Holds::ONE,
            lease: Lease::MAX,
        },
        limit: Limit::ONE,
        end: Deadline::Never,
    })
}

fn join(calls: &mut Calls, name: &[u8], key: &[u8]) {
    let waiter = Waiter {
        owner: OwnerBuf::from(owner(name)),
        lease: None,
        holds: None,
        limit: Limit::ONE,
        session: None,
        names_limit: false,
        client_id: Some(7),
        since: Monotonic(0),
        until: Some(Monotonic(1)),
    };
    calls.join(0, key, waiter, ());
}
