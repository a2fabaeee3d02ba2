//! Sentences of the contract, each by an example.

use super::key::Stored;
use super::model::{Amount, Call, Event, Holder, Model, NOT_RAISABLE, Reply, SEVERAL, Verb};
use super::system::System;
use crate::Deadline;

const START: u64 = 1_795_000_000_000;
const SHARED: u64 = 0;
const ANN: usize = 0;
const BOB: usize = 1;
const CAT: usize = 2;
const DAN: usize = 3;

fn at(ms: u64) -> Deadline {
    Deadline::At(START + ms)
}

/// A free lock, at time 0.
fn free() -> System {
    System::like(&Model::new(Vec::new(), 0, START * 1000))
}

/// A lock that these owners hold, with these limits, for 30 s.
fn held(holders: &[(usize, u64)]) -> System {
    let mut system = free();
    for (owner, limit) in holders {
        assert!(system.acquires(*owner, *limit), "{owner}");
    }
    system
}

impl System {
    fn acquire(&mut self, owner: usize, limit: u64, px: Option<u64>, block: bool) -> Reply {
        let holds = None;
        self.call(Call {
            owner,
            token: None,
            verb: Verb::Acquire {
                px,
                limit,
                holds,
                block,
            },
        })
    }

    fn acquires(&mut self, owner: usize, limit: u64) -> bool {
        matches!(self.acquire(owner, limit, None, false), Reply::Grant { .. })
    }

    fn waits(&mut self, owner: usize, limit: u64) {
        assert_eq!(self.acquire(owner, limit, None, true), Reply::Waits);
    }

    fn leaves(&mut self, owner: usize) -> Reply {
        self.call(Call {
            owner,
            token: None,
            verb: Verb::Release(Amount::All),
        })
    }

    fn renews(&mut self, owner: usize, limit: Option<u64>, px: Option<u64>) -> Reply {
        self.call(Call {
            owner,
            token: None,
            verb: Verb::Renew {
                px,
                limit,
                raise: None,
            },
        })
    }

    fn passes(&mut self, ms: u64) {
        self.apply(Event::Clock(self.now().micros() + 1000 * ms));
    }

    fn owners(&self) -> Vec<usize> {
        self.holder_list()
            .iter()
            .map(|holder| holder.owner)
            .collect()
    }

    fn holder_list(&self) -> Vec<Holder> {
        self.lock.live(self.now())
    }
}

#[test]
fn nobody_is_in_larger_company_than_it_asked_for() {
    let mut lock = held(&[(ANN, SHARED), (BOB, 3)]);
    assert!(!lock.acquires(CAT, 2));
    assert!(!lock.acquires(CAT, 1));
    assert!(lock.acquires(CAT, 5));
    assert!(!lock.acquires(DAN, SHARED), "BOB allows three");
}

#[test]
fn a_plain_acquire_waits_until_all_are_out_and_keeps_them_out() {
    let mut lock = held(&[(ANN, 5), (BOB, 5)]);
    lock.waits(CAT, 1);
    lock.leaves(ANN);
    assert_eq!(lock.owners(), [BOB]);
    lock.leaves(BOB);
    assert_eq!(lock.owners(), [CAT]);
    assert!(!lock.acquires(DAN, 5));
}

#[test]
fn readers_do_not_pass_a_waiting_writer_and_get_in_together_behind_it() {
    let mut lock = held(&[(ANN, SHARED)]);
    lock.waits(BOB, 1);
    assert!(!lock.acquires(CAT, SHARED), "it would have room");
    lock.waits(CAT, SHARED);
    lock.waits(DAN, SHARED);
    lock.leaves(ANN);
    assert_eq!(lock.owners(), [BOB]);
    lock.leaves(BOB);
    assert_eq!(lock.owners(), [CAT, DAN]);
}

#[test]
fn who_leaves_the_line_makes_room_for_those_behind() {
    let mut lock = held(&[(ANN, SHARED)]);
    lock.waits(BOB, 1);
    lock.waits(CAT, SHARED);
    lock.apply(Event::Leave(0));
    lock.tick();
    assert_eq!(lock.owners(), [ANN, CAT]);
}

#[test]
fn a_re_entry_passes_the_line() {
    let mut lock = held(&[(ANN, SHARED)]);
    lock.waits(BOB, 1);
    assert!(lock.acquires(ANN, SHARED));
    assert_eq!(lock.holder_list()[0].holds, 2);
}

#[test]
fn the_only_reader_becomes_the_writer_and_two_are_told_that_they_are_not_alone() {
    let mut lock = held(&[(ANN, SHARED), (BOB, SHARED)]);
    for reply in [
        lock.acquire(ANN, 1, None, true),
        lock.renews(ANN, Some(1), None),
    ] {
        assert_eq!(reply, Reply::Error("NOTALONE"));
    }
    lock.leaves(BOB);
    assert!(lock.acquires(ANN, 1));
    assert!(!lock.acquires(BOB, SHARED));
    assert!(
        matches!(lock.lock, Stored::Exclusive(_)),
        "stored as before"
    );
}

#[test]
fn a_narrower_limit_is_taken_where_no_more_hold_the_lock() {
    let mut lock = held(&[(ANN, SHARED), (BOB, SHARED)]);
    assert!(lock.acquires(ANN, 2));
    assert!(!lock.acquires(CAT, SHARED));
    assert!(lock.acquires(ANN, 5), "a wider one changes nothing");
    assert_eq!(lock.holder_list()[0].limit, 2);
}

#[test]
fn who_has_the_lock_alone_still_has_it_after_a_shared_re_entry() {
    let mut lock = held(&[(ANN, 1)]);
    let Reply::Grant { limit, holds, .. } = lock.acquire(ANN, SHARED, None, false) else {
        panic!("a re-entry");
    };
    assert_eq!((limit, holds), (1, 2));
    assert!(!lock.acquires(BOB, SHARED));
}

#[test]
fn a_writer_goes_on_as_a_reader_and_lets_those_in_who_wait() {
    let mut lock = held(&[(ANN, 1)]);
    let token = lock.holder_list()[0].token;
    lock.waits(BOB, SHARED);
    lock.waits(CAT, 3);
    lock.waits(DAN, SHARED);
    assert!(matches!(
        lock.renews(ANN, Some(SHARED), None),
        Reply::Grant { limit: 0, .. }
    ));
    assert_eq!(lock.owners(), [ANN, BOB, CAT]);
    assert_eq!(lock.holder_list()[0].token, token);
}

#[test]
fn a_grant_with_several_holds_gets_no_wider_limit() {
    let mut lock = held(&[(ANN, 1), (ANN, 1)]);
    assert_eq!(lock.renews(ANN, Some(SHARED), None), Reply::Error(SEVERAL));
    let mut lock = held(&[(ANN, 2), (ANN, 2)]);
    assert_eq!(lock.renews(ANN, Some(3), None), Reply::Error(SEVERAL));
    assert_eq!(lock.renews(ANN, Some(5), None), Reply::Error(SEVERAL));
    assert!(matches!(
        lock.renews(ANN, Some(2), None),
        Reply::Grant { limit: 2, .. }
    ));
}

#[test]
fn a_lease_is_held_at_its_end_and_not_after_it() {
    let mut lock = free();
    lock.acquire(ANN, 2, Some(100), false);
    lock.acquire(BOB, 2, Some(200), false);
    assert_eq!(lock.lock.expiry(), Some(at(200)));
    lock.waits(CAT, 2);
    lock.passes(100);
    lock.tick();
    assert_eq!(lock.owners(), [ANN, BOB]);
    lock.passes(1);
    assert_eq!(
        lock.owners(),
        [BOB],
        "answered without it, before it is taken out"
    );
    lock.tick();
    assert_eq!(lock.owners(), [BOB, CAT]);
    assert_eq!(lock.leaves(ANN), Reply::Error("NOTOWNER"));
}

#[test]
fn a_cut_by_hand_is_made_lasting_by_the_next_change() {
    let mut lock = held(&[(ANN, SHARED), (BOB, SHARED)]);
    lock.apply(Event::Pexpire(500));
    assert!(
        lock.holder_list()
            .iter()
            .all(|h| h.end == Some(START + 500))
    );
    lock.renews(ANN, None, Some(9000));
    assert_eq!(lock.lock.expiry(), Some(at(9000)));
    lock.apply(Event::Persist);
    let ends: Vec<_> = lock.holder_list().iter().map(|h| h.end).collect();
    assert_eq!(ends, [Some(START + 9000), Some(START + 500)]);
}

#[test]
fn a_cut_that_no_change_has_made_lasting_is_taken_back_and_lengthens_nothing() {
    for back in [Event::Persist, Event::Pexpire(90_000)] {
        let mut lock = held(&[(ANN, SHARED), (BOB, SHARED)]);
        lock.apply(Event::Pexpire(500));
        lock.apply(back);
        assert!(
            lock.holder_list()
                .iter()
                .all(|h| h.end == Some(START + 30_000))
        );
    }
}

#[test]
fn a_key_that_outlives_its_shares_is_free_and_goes_with_the_next_change() {
    let mut lock = held(&[(ANN, SHARED), (BOB, SHARED)]);
    lock.apply(Event::Persist);
    lock.passes(30_001);
    assert!(lock.holder_list().is_empty());
    assert_ne!(lock.lock, Stored::Free);
    assert_eq!(lock.renews(ANN, None, None), Reply::Error("NOTHELD"));
    assert_eq!(lock.lock, Stored::Free);
}

#[test]
fn the_next_change_gives_a_persisted_key_its_expiry_again() {
    let mut lock = held(&[(ANN, SHARED), (BOB, SHARED)]);
    lock.apply(Event::Persist);
    lock.passes(1000);
    lock.leaves(ANN);
    assert_eq!(lock.lock.expiry(), Some(at(30_000)));
}

#[test]
fn which_of_the_two_a_lock_is_is_judged_before_the_change() {
    // Of limit 1: the expiry was the lease, and the re-entry keeps it.
    let mut lock = held(&[(ANN, 1)]);
    lock.apply(Event::Pexpire(90_000));
    lock.acquires(ANN, 1);
    assert_eq!(lock.lock.expiry(), Some(at(90_000)));
    // A lone share: the expiry lengthened nothing, and the new writer has its own end.
    let mut lock = held(&[(ANN, SHARED)]);
    lock.apply(Event::Pexpire(90_000));
    lock.acquires(ANN, 1);
    assert_eq!(lock.lock.expiry(), Some(at(30_000)));
}

#[test]
fn every_current_grant_is_fenced_and_none_is_raised_that_is_shared() {
    let mut lock = held(&[(ANN, SHARED), (BOB, 2)]);
    let tokens: Vec<_> = lock.holder_list().iter().map(|h| h.token).collect();
    assert!(tokens.is_sorted());
    let fence = |token| Call {
        owner: CAT,
        token: Some(token),
        verb: Verb::Fence,
    };
    for token in &tokens {
        assert_eq!(lock.call(fence(*token)), Reply::Ok);
    }
    assert_eq!(lock.call(fence(tokens[1] + 1)), Reply::Error("FENCED"));
    for (owner, raise) in [(ANN, tokens[0]), (BOB, tokens[1] + 1)] {
        let raise = lock.call(Call {
            owner,
            token: Some(tokens[owner]),
            verb: Verb::Renew {
                px: None,
                limit: None,
                raise: Some(raise),
            },
        });
        assert_eq!(raise, Reply::Error(NOT_RAISABLE));
    }
}

#[test]
fn no_call_has_room_beyond_the_setting() {
    let mut lock = held(&[(ANN, SHARED), (BOB, SHARED)]);
    lock.apply(Event::MaxHolders(2));
    lock.waits(CAT, SHARED);
    lock.apply(Event::MaxHolders(3));
    lock.tick();
    assert_eq!(lock.owners(), [ANN, BOB, CAT]);
}

#[test]
fn an_owners_waiting_calls_are_judged_together_with_its_grant() {
    let mut lock = held(&[(ANN, 1)]);
    lock.waits(BOB, SHARED);
    lock.waits(CAT, SHARED);
    lock.waits(BOB, SHARED);
    lock.leaves(ANN);
    let order: Vec<_> = lock.told.iter().map(|(number, _)| *number).collect();
    assert_eq!(order, [0, 2, 1]);
    assert_eq!(lock.holder_list()[0].holds, 2);
    // The second call of CAT, which wants it alone, hears that it is not.
    let mut lock = held(&[(ANN, 1)]);
    lock.waits(BOB, SHARED);
    lock.waits(CAT, SHARED);
    lock.waits(CAT, 1);
    lock.leaves(ANN);
    assert_eq!(lock.told[2], (2, Reply::Error("NOTALONE")));
}

#[test]
fn the_first_in_line_is_judged_where_it_holds_the_lock_already() {
    let mut lock = held(&[(ANN, 1)]);
    lock.waits(BOB, 1);
    let restored = held(&[(BOB, 2), (CAT, 2)]);
    (lock.lock, lock.replica) = (restored.lock, restored.replica);
    lock.tick();
    assert_eq!(lock.told, [(0, Reply::Error("NOTALONE"))]);
}

#[test]
fn a_cut_by_a_millisecond_is_one() {
    let mut lock = held(&[(ANN, SHARED), (BOB, SHARED)]);
    lock.apply(Event::Pexpire(29_999));
    lock.acquire(CAT, SHARED, Some(40_000), false);
    lock.apply(Event::Persist);
    assert_eq!(lock.holder_list()[0].end, Some(START + 29_999));
}

#[test]
fn a_release_never_widens_and_the_last_frees() {
    let mut lock = held(&[(ANN, 2), (BOB, 2)]);
    assert_eq!(lock.leaves(ANN), Reply::Left(0));
    assert!(lock.acquires(CAT, SHARED));
    assert!(!lock.acquires(DAN, SHARED));
    lock.leaves(CAT);
    assert_eq!(lock.leaves(BOB), Reply::Left(0));
    assert_eq!(lock.lock, Stored::Free);
}
