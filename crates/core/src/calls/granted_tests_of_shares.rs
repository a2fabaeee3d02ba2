//! Pending grants of a lock with several holders.

use super::*;
use crate::{
    Grant, Holder, HolderSet, Holders, Holds, Lease, Owner, OwnerBuf, ReleaseAmount, SharedLock,
    Token, UnixTime,
};

const KEY: &[u8] = b"lock";
const END: u64 = 1000;

fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

/// A lock that these owners share, with tokens from 1 and these hold counts; and a pending call of each.
struct Scenario {
    shares: HolderSet,
    calls: Calls,
    ids: Vec<CallId>,
}

impl Scenario {
    fn of(owners: &[(&str, u32)]) -> Self {
        let mut shares = None;
        let (mut calls, mut ids) = (Calls::default(), Vec::new());
        for (number, (owner, holds)) in (1..).zip(owners) {
            let (owner, holds) = (
                Owner::new(owner.as_bytes()).unwrap(),
                Holds::new(*holds).unwrap(),
            );
            let holder = Holder {
                owner,
                grant: Grant {
                    token: token(number),
                    holds,
                    lease: Lease::from_millis(END).unwrap(),
                },
                limit: Limit::NONE,
                end: Deadline::At(END),
            };
            HolderSet::add_stored(&mut shares, &holder).unwrap();
            let waiter = Waiter {
                owner: OwnerBuf::from(owner),
                lease: None,
                holds: None,
                limit: Limit::NONE,
                keep: None,
                session: None,
                names_limit: false,
                client_id: number,
                since: Monotonic(0),
                until: None,
            };
            let id = calls.join(0, KEY, waiter, ());
            let taken = Taken {
                token: token(number),
                took_hold: true,
                holds,
                deadline: Deadline::At(END),
            };
            calls.grant(id, taken, holds == Holds::ONE).unwrap();
            ids.push(id);
        }
        Self {
            shares: HolderSet::finish_stored(shares).unwrap(),
            calls,
            ids,
        }
    }

    fn given_back(&mut self) -> Option<(String, ReleaseAmount)> {
        self.calls.check();
        let holders = Holders::Shared(SharedLock {
            set: &self.shares,
            expiry: Deadline::At(END),
        });
        let give_backs = self.calls.take_give_backs(0, KEY);
        let [give_back] = &give_backs[..] else {
            panic!("{give_backs:?}");
        };
        let amount = give_back.release(Some(&holders))?;
        let owner = give_back.owner.as_owner().bytes().to_vec();
        Some((String::from_utf8(owner).unwrap(), amount))
    }

    fn abandon(&mut self, n: usize) -> Option<(String, ReleaseAmount)> {
        assert!(self.calls.abandon(self.ids[n]));
        self.given_back()
    }

    fn answer(&mut self, client: u64) {
        self.calls.reply_written(client);
        self.calls.replies_sent(|| UnixTime::from_micros(0));
    }

    /// The only answered call of this client's grant was not sent.
    fn unsent(&mut self, client: u64) -> Option<(String, ReleaseAmount)> {
        assert!(self.calls.closed(client));
        self.calls.reply_is_unsent(client);
        self.given_back()
    }
}

fn all(owner: &str) -> (String, ReleaseAmount) {
    (owner.to_owned(), ReleaseAmount::All)
}

#[test]
fn each_share_comes_back_whose_caller_is_gone() {
    let mut scenario = Scenario::of(&[("ann", 1), ("bob", 1), ("cat", 1)]);
    assert_eq!(scenario.abandon(1), Some(all("bob")));
    scenario.answer(1);
    assert_eq!(scenario.abandon(2), Some(all("cat")));
    assert_eq!(scenario.unsent(1), Some(all("ann")));
    assert_eq!(scenario.calls.entries(), 0);
}

#[test]
fn an_answer_is_of_its_own_grant_alone() {
    let mut scenario = Scenario::of(&[("ann", 1), ("bob", 1)]);
    scenario.calls.answered(0, KEY, token(1));
    assert_eq!(scenario.abandon(0), None, "its last hold stays");
    assert_eq!(scenario.abandon(1), Some(all("bob")));
}

#[test]
fn of_several_holds_one_comes_back() {
    let mut scenario = Scenario::of(&[("ann", 2), ("bob", 1)]);
    assert_eq!(
        scenario.abandon(0),
        Some(("ann".to_owned(), ReleaseAmount::One))
    );
}

#[test]
fn an_unconfirmed_share_that_was_changed_stays() {
    let mut scenario = Scenario::of(&[("ann", 1), ("bob", 1)]);
    scenario.answer(1);
    scenario.shares = Scenario::of(&[("ann", 2), ("bob", 1)]).shares;
    assert_eq!(scenario.unsent(1), None);
}

#[test]
fn nothing_comes_back_of_a_share_that_has_gone() {
    let mut scenario = Scenario::of(&[("ann", 1), ("bob", 1)]);
    scenario.shares = Scenario::of(&[("ann", 1)]).shares;
    assert_eq!(scenario.abandon(1), None);
}
