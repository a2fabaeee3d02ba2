//! Claim, read and write in one transaction: what holds under which isolation level.

use crate::seller::{EVERYWHERE, Kept, Recipe, Seller, two};
use crate::session::{Database, Session};
use std::thread::scope;
use testbed::eventually;

/// Of `PostgreSQL`; the first is what it has by default.
const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
/// To be repeated from the claim on: `serialization_failure`.
const REPEAT: &str = "40001";

fn begin(session: &mut Session, level: &str) {
    let begin = format!("BEGIN ISOLATION LEVEL {level}");
    session.change(&begin).expect("a transaction");
}

fn end(session: &mut Session, how: &str) {
    session.change(how).expect("an end");
}

/// The result of `waits`, which has to wait for a row until `then` is done.
fn after<T: Send>(
    watcher: &mut Session,
    waits: impl FnOnce() -> T + Send,
    then: impl FnOnce(),
) -> T {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    scope(|scope| {
        let thread = scope.spawn(waits);
        eventually(|| watcher.look(waiting) == Some(1), "one who waits");
        then();
        thread.join().expect("a seller")
    })
}

/// Calls `case` for each place of the seat and each level, with nothing sold, both sellers, and
/// sessions for them and for a watcher.
fn in_every_case(case: impl Fn(Kept, &str, [Seller; 2], [Session; 3])) {
    let Some(database) = Database::postgres() else {
        return;
    };
    for kept in EVERYWHERE {
        for level in LEVELS {
            database.reset();
            let sessions = [0; 3].map(|_| database.connect());
            case(kept, level, two(kept, Recipe::Claims), sessions);
        }
    }
}

#[test]
fn a_late_write_waits_for_a_newer_transaction_and_is_refused() {
    in_every_case(
        |kept, level, [first, second], [mut a, mut b, mut watcher]| {
            assert_eq!(first.claim(&mut a), Ok(true));
            assert_eq!(first.free(&mut a), 1);
            begin(&mut b, level);
            assert_eq!(second.claim(&mut b), Ok(true));
            assert_eq!(second.free(&mut b), 1);
            let write = || {
                begin(&mut a, level);
                first.sell(&mut a)
            };
            let late = after(&mut watcher, write, || {
                assert_eq!(second.sell(&mut b), Ok(true));
                end(&mut b, "COMMIT");
            });
            match level {
                "READ COMMITTED" => assert_eq!(late, Ok(false), "{kept:?}"),
                _ => assert_eq!(late, Err(REPEAT.to_owned()), "{kept:?}, {level}"),
            }
        },
    );
}

#[test]
fn a_claim_waits_for_an_older_transaction_and_sees_what_it_has_written() {
    in_every_case(
        |kept, level, [first, second], [mut a, mut b, mut watcher]| {
            begin(&mut a, level);
            assert_eq!(first.claim(&mut a), Ok(true));
            assert_eq!(first.free(&mut a), 1);
            assert_eq!(first.sell(&mut a), Ok(true));
            let claim = || {
                begin(&mut b, level);
                second.claim(&mut b)
            };
            let claimed = after(&mut watcher, claim, || end(&mut a, "COMMIT"));
            if level == "READ COMMITTED" {
                assert_eq!(claimed, Ok(true), "{kept:?}");
            } else {
                assert_eq!(claimed, Err(REPEAT.to_owned()), "{kept:?}, {level}");
                end(&mut b, "ROLLBACK");
                begin(&mut b, level);
                assert_eq!(second.claim(&mut b), Ok(true));
            }
            assert_eq!(second.free(&mut b), 0, "{kept:?}, {level}");
        },
    );
}

#[test]
fn a_transaction_that_is_rolled_back_has_claimed_nothing() {
    in_every_case(
        |kept, level, [first, second], [mut a, mut b, mut watcher]| {
            begin(&mut b, level);
            assert_eq!(second.claim(&mut b), Ok(true));
            assert_eq!(second.free(&mut b), 1);
            let claim = || {
                begin(&mut a, level);
                first.claim(&mut a)
            };
            let older = after(&mut watcher, claim, || end(&mut b, "ROLLBACK"));
            assert_eq!(older, Ok(true), "{kept:?}, {level}");
            assert_eq!(first.sell(&mut a), Ok(true));
            end(&mut a, "COMMIT");
            // What the other has read before does not count: under the claim that is gone it sells nothing.
            assert_eq!(second.sell_alone(&mut b), Ok(false), "{kept:?}, {level}");
            assert_eq!(second.claim(&mut b), Ok(true));
            assert_eq!(second.free(&mut b), 0);
        },
    );
}

#[test]
fn what_is_read_before_the_claim_may_be_old_under_read_committed() {
    in_every_case(|kept, level, [first, second], [mut a, mut b, _]| {
        assert_eq!(first.claim(&mut a), Ok(true));
        assert_eq!(first.free(&mut a), 1);
        begin(&mut b, level);
        assert_eq!(second.free(&mut b), 1);
        assert_eq!(first.sell_alone(&mut a), Ok(true));
        if level == "READ COMMITTED" {
            assert_eq!(second.claim(&mut b), Ok(true));
            assert_eq!(second.sell(&mut b), Ok(true), "{kept:?}: sold twice");
        } else {
            let claimed = second.claim(&mut b);
            assert_eq!(claimed, Err(REPEAT.to_owned()), "{kept:?}, {level}");
        }
    });
}

#[test]
fn a_deleted_row_takes_its_fence_with_it_and_a_fence_row_stays() {
    let both = |database: &Database| {
        for (kept, stays) in [(Kept::NewRow, false), (Kept::Tables, true)] {
            database.reset();
            let mut session = database.connect();
            let [first, second] = two(kept, Recipe::Claims);
            assert_eq!(second.claim(&mut session), Ok(true));
            let deleted = match kept {
                Kept::Tables => "DELETE FROM stock WHERE id = 42",
                _ => "DELETE FROM bookings WHERE id = 42",
            };
            assert_eq!(session.change(deleted), Ok(1));
            assert_eq!(first.claim(&mut session), Ok(!stays), "{kept:?}");
        }
    };
    both(&Database::sqlite());
    if let Some(database) = Database::postgres() {
        both(&database);
    }
}

#[test]
fn an_open_transaction_holds_up_the_next_claim_until_it_is_cut() {
    let Some(database) = Database::postgres() else {
        return;
    };
    for kept in EVERYWHERE {
        database.reset();
        let [first, second] = two(kept, Recipe::Claims);
        let [mut a, mut b] = [0; 2].map(|_| database.connect());
        let bound = "SET idle_in_transaction_session_timeout = '500ms'";
        a.change(bound).expect("a setting");
        b.change("SET lock_timeout = '100ms'").expect("a setting");
        begin(&mut a, "READ COMMITTED");
        assert_eq!(first.claim(&mut a), Ok(true));
        assert_eq!(first.free(&mut a), 1);
        assert_eq!(second.claim(&mut b), Err("55P03".to_owned()), "no lock");
        eventually(|| second.claim(&mut b) == Ok(true), "the claim");
        assert_eq!(second.free(&mut b), 1);
        assert!(first.sell(&mut a).is_err(), "its transaction is gone");
        assert_eq!(second.sell_alone(&mut b), Ok(true));
    }
}

#[test]
fn a_transaction_in_sqlite_keeps_others_from_claiming_and_writing() {
    let database = Database::sqlite();
    for kept in EVERYWHERE {
        database.reset();
        let [first, second] = two(kept, Recipe::Claims);
        let [mut a, mut b] = [0; 2].map(|_| database.connect());
        assert_eq!(first.claim(&mut a), Ok(true));
        assert_eq!(first.free(&mut a), 1);
        b.change("BEGIN").expect("a transaction");
        assert_eq!(second.claim(&mut b), Ok(true));
        assert_eq!(second.free(&mut b), 1);
        assert_eq!(first.sell(&mut a), Err("busy".to_owned()), "{kept:?}");
        assert_eq!(second.sell(&mut b), Ok(true));
        end(&mut b, "COMMIT");
        assert_eq!(first.sell_alone(&mut a), Ok(false), "{kept:?}");
    }
}
