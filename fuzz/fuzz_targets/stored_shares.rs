//! Holders as they are stored and as they are sent: any fields are refused or make valid holders, any effect is
//! refused or read as it is written, and its change is made or refused on any shares, twice as once.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use redis_lock_core::{
    Deadline, EffectBuffer, Holder, HolderSet, Limit, LockChange, Mismatch, SharedChange,
    SharedStep, StoredHolder, Token, is_quiet,
};
use std::collections::BTreeSet;

const TOKENS_END: u64 = 1 << 53;
const HOLDS_END: u64 = 1 << 31;
const MAX_LEASE_MS: u64 = 315_360_000_000;
const MAX_OWNER: usize = 256;
const LAST_END: u64 = 1 << 63;

/// The fields of a share. Small numbers come often, so that shares fit and changes meet them.
#[derive(Arbitrary, Clone, Debug)]
struct Share {
    token: Number,
    holds: Number,
    lease_ms: Number,
    owner: Owner,
    limit: Number,
    end_ms: Number,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Number {
    Short(u8),
    /// At this distance from the end of a range.
    Token(i8),
    Holds(i8),
    Lease(i8),
    End(i8),
    Any(u64),
}

#[derive(Arbitrary, Clone, Debug)]
enum Owner {
    Short(u8),
    Any(Vec<u8>),
}

/// A change, as it comes down a stream.
#[derive(Arbitrary, Debug)]
struct Change {
    cap: Option<Number>,
    step: What,
    count: Option<u8>,
    latest_end: Option<Number>,
}

#[derive(Arbitrary, Debug)]
enum What {
    Only(Share),
    Put(Share),
    Remove(Number),
    RemoveEnded(Number),
}

impl Number {
    fn value(self) -> u64 {
        let near = |end: u64, by: i8| end.wrapping_add_signed(by.into());
        match self {
            Self::Short(number) => number.into(),
            Self::Token(by) => near(TOKENS_END, by),
            Self::Holds(by) => near(HOLDS_END, by),
            Self::Lease(by) => near(MAX_LEASE_MS, by),
            Self::End(by) => near(LAST_END, by),
            Self::Any(number) => number,
        }
    }
}

impl Owner {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(byte) => std::slice::from_ref(byte),
            Self::Any(bytes) => bytes,
        }
    }
}

impl Share {
    fn fields(&self) -> StoredHolder<'_> {
        StoredHolder {
            limit: self.limit.value(),
            end_ms: Some(self.end_ms.value()),
            token: self.token.value(),
            holds: self.holds.value(),
            lease_ms: self.lease_ms.value(),
            owner: self.owner.bytes(),
        }
    }
}

fuzz_target!(|input: (Vec<Share>, Vec<Change>, &[u8])| {
    let (stored, changes, bytes) = input;
    let fields: Vec<_> = stored.iter().map(Share::fields).collect();
    let mut shares = read(&fields);
    assert_eq!(shares.is_ok(), are_valid(&fields), "{fields:?}");
    if let Ok(shares) = &shares {
        let again: Vec<_> = shares.iter().map(StoredHolder::from).collect();
        assert_eq!(again, fields);
        check_rewrite(shares);
    }
    for change in &changes {
        make(change, &mut shares);
    }
    check_effect(bytes, shares.as_ref().ok());
});

fn read(fields: &[StoredHolder<'_>]) -> Result<HolderSet, ()> {
    let mut shares = None;
    for fields in fields {
        let holder = Holder::try_from(*fields).map_err(drop)?;
        HolderSet::add_stored(&mut shares, &holder).map_err(drop)?;
    }
    HolderSet::finish_stored(shares).map_err(drop)
}

fn are_valid(fields: &[StoredHolder<'_>]) -> bool {
    let owners: BTreeSet<_> = fields.iter().map(|fields| fields.owner).collect();
    let mut limits = fields.iter().map(|fields| fields.limit);
    let count = fields.len() as u64;
    let alone = fields.len() == 1 && fields[0].limit == 1;
    fields.iter().all(is_valid)
        && fields.is_sorted_by(|one, next| one.token < next.token)
        && owners.len() == fields.len()
        && limits.all(|limit| limit == 0 || count <= limit)
        && !fields.is_empty()
        && !alone
}

fn is_valid(fields: &StoredHolder<'_>) -> bool {
    (1..TOKENS_END).contains(&fields.token)
        && (1..HOLDS_END).contains(&fields.holds)
        && (1..=MAX_LEASE_MS).contains(&fields.lease_ms)
        && (1..=MAX_OWNER).contains(&fields.owner.len())
        && fields.limit < HOLDS_END
        && fields.end_ms.is_some_and(|end| end < LAST_END)
}

/// What replicas and files hold is always so.
fn check(shares: &HolderSet) {
    let fields: Vec<_> = shares.iter().map(StoredHolder::from).collect();
    assert!(are_valid(&fields), "{fields:?}");
    assert_eq!(shares.count(), fields.len());
    let ends = || fields.iter().filter_map(|fields| fields.end_ms);
    assert_eq!(Some(shares.latest_end()), ends().max().map(Deadline::At));
    assert_eq!(Some(shares.next_end()), ends().min().map(Deadline::At));
    for share in shares.iter() {
        assert_eq!(shares.find(share.owner), Some(share));
        assert_eq!(shares.find_token(share.grant.token), Some(share));
    }
    assert_eq!(read(&fields).as_ref(), Ok(shares));
}

/// The shares, written whole and made anew.
fn check_rewrite(shares: &HolderSet) {
    check(shares);
    let mut anew: Option<HolderSet> = None;
    for change in shares.rewrite() {
        if let Some(new) = change.apply(anew.as_mut()).expect("a change that fits") {
            anew = Some(new);
        }
    }
    assert_eq!(anew.as_ref(), Some(shares));
}

/// Makes a change as a primary would send it; sometimes one that was made for another lock.
fn make(change: &Change, shares: &mut Result<HolderSet, ()>) {
    let Change {
        cap,
        step,
        count,
        latest_end,
    } = change;
    let of = |share: &Share| read(&[share.fields()]);
    let one = match step {
        What::Only(share) | What::Put(share) => of(share).ok(),
        _ => None,
    };
    let share = one.as_ref().and_then(|one| one.iter().next());
    let step = match (step, share) {
        (What::Only(_), Some(share)) => SharedStep::Only(share),
        (What::Put(_), Some(share)) => SharedStep::Put(share),
        (What::Remove(token), _) => match Token::new(token.value()) {
            Some(token) => SharedStep::Remove(token),
            None => return,
        },
        (What::RemoveEnded(before), _) => SharedStep::RemoveEnded(before.value()),
        _ => return,
    };
    let mut change = SharedChange {
        whole: false,
        cap: cap.map(Number::value),
        step,
        count: 0,
        latest_end: 0,
    };
    let present = shares.as_ref().ok().cloned();
    fit(&mut change, present.as_ref());
    change.count = count.map_or(change.count, u32::from);
    change.latest_end = latest_end.map_or(change.latest_end, Number::value);
    let mut buffer = EffectBuffer::new();
    let effect = change.effect(Token::MAX, false, &mut buffer).to_vec();
    check_effect(&effect, shares.as_ref().ok());
    if let Some(after) = applied(&change, present.as_ref()) {
        *shares = Ok(after);
    }
}

/// The count and the end that the change leads to, told without the module's help.
fn fit(change: &mut SharedChange<'_>, shares: Option<&HolderSet>) {
    let mut after: Vec<(u64, u64)> = shares
        .iter()
        .flat_map(|shares| shares.iter())
        .map(|share| (share.grant.token.number(), share.end.millis()))
        .collect();
    for (_, end) in &mut after {
        *end = change.cap.map_or(*end, |cap| cap.min(*end));
    }
    match &change.step {
        SharedStep::Only(share) => after = vec![(share.grant.token.number(), share.end.millis())],
        SharedStep::Put(share) => {
            after.retain(|(token, _)| *token != share.grant.token.number());
            after.push((share.grant.token.number(), share.end.millis()));
        }
        SharedStep::Remove(token) => after.retain(|(other, _)| *other != token.number()),
        SharedStep::RemoveEnded(before) => after.retain(|(_, end)| end >= before),
    }
    change.count = u32::try_from(after.len()).expect("few shares");
    change.latest_end = after.iter().map(|(_, end)| *end).max().unwrap_or(0);
}

/// What an effect may do wherever it comes.
fn check_effect(bytes: &[u8], shares: Option<&HolderSet>) {
    let Ok(lock_change) = LockChange::from_effect(bytes) else {
        return;
    };
    let LockChange::Shared(change) = lock_change else {
        return;
    };
    let mut buffer = EffectBuffer::new();
    let seen = lock_change.token().unwrap_or(Token::MAX);
    let written = change.effect(seen, is_quiet(bytes), &mut buffer);
    assert_eq!(LockChange::from_effect(written), Ok(lock_change));
    applied(&change, shares);
}

/// The outcome of a change, which is the same when it is made again; none where it was made for another lock.
fn applied(change: &SharedChange<'_>, shares: Option<&HolderSet>) -> Option<HolderSet> {
    let once = |shares: Option<HolderSet>| -> Result<HolderSet, Mismatch> {
        let mut shares = shares;
        match change.apply(shares.as_mut())? {
            Some(new) => Ok(new),
            None => Ok(shares.expect("shares that were changed")),
        }
    };
    let after = once(shares.cloned()).ok()?;
    check(&after);
    assert!(after.least_limit() > Limit::ONE, "{after:?}");
    assert_eq!(once(Some(after.clone())).as_ref(), Ok(&after), "made again");
    Some(after)
}
