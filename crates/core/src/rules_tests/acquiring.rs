//! Acquires.

use super::*;

const fn by(owner: &'static [u8]) -> Acquire<'static> {
    Acquire {
        owner: named(owner),
        limit: Limit::ONE,
        lease: None,
        holds: None,
        token: None,
    }
}
const ANN: Acquire<'static> = by(b"ann");
const BOB: Acquire<'static> = by(b"bob");

impl Acquire<'_> {
    const fn px(mut self, millis: u64) -> Self {
        self.lease = Lease::from_millis(millis);
        self
    }
    const fn holds(mut self, count: u32) -> Self {
        self.holds = Holds::new(count);
        self
    }
    const fn token(mut self, number: u64) -> Self {
        self.token = Token::new(number);
        self
    }
}

type Outcome = Result<Option<Granted<'static>>, Refusal>;
type Row<'a> = (&'a str, Option<Holder<'a>>, Acquire<'a>, Outcome);

const BUSY: Outcome = Ok(None);

fn new(lease: u64, deadline: u64) -> Outcome {
    let holder = ann_with(grant(NOW.micros(), 1, lease), Deadline::At(deadline));
    Ok(Some(Granted {
        before: None,
        holder,
        change: LockChange::Exclusive(holder),
    }))
}

fn kept(lock: Option<Holder<'static>>) -> Outcome {
    let holder = lock.unwrap();
    Ok(Some(Granted {
        before: Some(holder.grant),
        holder,
        change: LockChange::Keep,
    }))
}

fn again(holds: u32, lease: u64, deadline: Deadline) -> Outcome {
    let holder = ann_with(grant(TOKEN, holds, lease), deadline);
    Ok(Some(Granted {
        // Of the lock in the row.
        before: None,
        holder,
        change: LockChange::Exclusive(holder),
    }))
}

fn check(table: &[Row<'_>]) {
    for (rule, lock, request, outcome) in table {
        let mut clock = seen(TOKEN);
        let holders = lock.map(Holders::Exclusive);
        let result = acquire(holders.as_ref(), request, false, &RULES, NOW, &mut clock);
        let of_lock = |granted| Granted {
            before: lock.map(|held| held.grant),
            ..granted
        };
        assert_eq!(
            result,
            outcome.map(|granted| granted.map(of_lock)),
            "{rule}"
        );
        let last = match outcome {
            Ok(Some(granted)) => granted.holder.grant.token.number(),
            _ => TOKEN,
        };
        assert_eq!(clock, seen(last), "{rule}: the token clock");
    }
}

#[rustfmt::skip]
#[test]
fn a_free_lock() {
    use Refusal::NotHeld;
    check(&[
        ("a new grant: one check, the default lease", FREE, ANN, new(20_000, 120_000)),
        ("a shorter lease given is the grant's", FREE, ANN.px(1), new(1, 100_001)),
        ("a longer lease given is the grant's", FREE, ANN.px(60_000), new(60_000, 160_000)),
        ("HOLDS 1 counts on no earlier check", FREE, ANN.holds(1), new(20_000, 120_000)),
        ("HOLDS 2 counts on a check that is lost", FREE, ANN.holds(2), Err(NotHeld)),
        ("the most HOLDS count on lost holds too", FREE, ANN.holds(MAX), Err(NotHeld)),
        ("TOKEN only re-enters", FREE, ANN.token(TOKEN), Err(NotHeld)),
        ("TOKEN only re-enters, with HOLDS 1 too", FREE, ANN.token(TOKEN).holds(1), Err(NotHeld)),
    ]);
}

#[rustfmt::skip]
#[test]
fn anothers_lock() {
    use Refusal::NotOwner;
    let lock = anns(1, DEADLINE);
    check(&[
        ("another's lock is not taken", lock, BOB, BUSY),
        ("whatever lease is asked for", lock, BOB.px(60_000), BUSY),
        ("nor when it has no deadline", anns(1, Deadline::Never), BOB, BUSY),
        ("nor when it has the most holds", anns(MAX, DEADLINE), BOB, BUSY),
        ("owners differ in every byte: shorter", lock, by(b"an"), BUSY),
        ("owners differ in every byte: longer", lock, by(b"ann\0"), BUSY),
        ("owners differ in every byte: case", lock, by(b"Ann"), BUSY),
        ("HOLDS 1 counts on no earlier check", lock, BOB.holds(1), BUSY),
        ("HOLDS 2 counts on a lost check", lock, BOB.holds(2), Err(NotOwner)),
        ("however many Ann has", anns(5, DEADLINE), BOB.holds(2), Err(NotOwner)),
        ("TOKEN only re-enters", lock, BOB.token(TOKEN), Err(NotOwner)),
        ("NOTOWNER before FENCED", lock, BOB.token(TOKEN - 1), Err(NotOwner)),
        ("TOKEN with HOLDS 1", lock, BOB.token(TOKEN).holds(1), Err(NotOwner)),
    ]);
}

#[rustfmt::skip]
#[test]
fn re_entry() {
    let lock = anns(1, DEADLINE);
    let later = anns(1, LATER);
    let persisted = anns(1, Deadline::Never);
    check(&[
        ("one check more, same token, the remembered lease", lock, ANN, again(2, LEASE, RENEWED)),
        ("a longer lease is remembered", lock, ANN.px(60_000), again(2, 60_000, Deadline::At(160_000))),
        ("a shorter lease is not", lock, ANN.px(5), again(2, LEASE, RENEWED)),
        ("a later deadline stays", later, ANN, again(2, LEASE, LATER)),
        ("a later deadline stays beside a longer lease", later, ANN.px(60_000), again(2, 60_000, LATER)),
        ("no deadline stays none", persisted, ANN, again(2, LEASE, Deadline::Never)),
        ("no deadline stays none beside a longer lease", persisted, ANN.px(60_000), again(2, 60_000, Deadline::Never)),
        ("the longest lease", lock, ANN.px(Lease::MAX.millis()), again(2, Lease::MAX.millis(), Deadline::At(315_360_100_000))),
        ("up to the most holds", anns(MAX - 1, DEADLINE), ANN, again(MAX, LEASE, RENEWED)),
        ("and no further", anns(MAX, DEADLINE), ANN, Err(Refusal::TooManyHolds)),
    ]);
}

#[rustfmt::skip]
#[test]
fn holds_wanted() {
    use Refusal::HoldsLost;
    let lock = anns(3, DEADLINE);
    check(&[
        ("one check short: it is added", lock, ANN.holds(4), again(4, LEASE, RENEWED)),
        ("it has them: only the lease is refreshed", lock, ANN.holds(3), again(3, LEASE, RENEWED)),
        ("it has more: only the lease is refreshed", lock, ANN.holds(2), again(3, LEASE, RENEWED)),
        ("HOLDS 1 never adds to a lock held", lock, ANN.holds(1), again(3, LEASE, RENEWED)),
        ("a refresh remembers a longer lease", lock, ANN.holds(3).px(60_000), again(3, 60_000, Deadline::At(160_000))),
        ("a refresh does not shorten", lock, ANN.holds(3).px(5), again(3, LEASE, RENEWED)),
        ("nothing to refresh: a later deadline", anns(3, LATER), ANN.holds(3), kept(anns(3, LATER))),
        ("nothing to refresh: no deadline", anns(3, Deadline::Never), ANN.holds(3), kept(anns(3, Deadline::Never))),
        ("nothing to refresh: repeated in the same moment", anns(3, RENEWED), ANN.holds(3), kept(anns(3, RENEWED))),
        ("two short: a check is lost", lock, ANN.holds(5), Err(HoldsLost)),
        ("many short: holds are lost", lock, ANN.holds(MAX), Err(HoldsLost)),
        ("one short of the most", anns(MAX - 1, DEADLINE), ANN.holds(MAX), again(MAX, LEASE, RENEWED)),
        ("at the most, and wanting that", anns(MAX, DEADLINE), ANN.holds(MAX), again(MAX, LEASE, RENEWED)),
        ("two short of the most", anns(MAX - 2, DEADLINE), ANN.holds(MAX), Err(HoldsLost)),
    ]);
}

#[rustfmt::skip]
#[test]
fn token_given() {
    use Refusal::{Fenced, HoldsLost};
    let lock = anns(1, DEADLINE);
    check(&[
        ("the grant's own: re-entry", lock, ANN.token(TOKEN), again(2, LEASE, RENEWED)),
        ("the grant's own, with HOLDS", lock, ANN.token(TOKEN).holds(1), again(1, LEASE, RENEWED)),
        ("an earlier grant of the same owner", lock, ANN.token(TOKEN - 1), Err(Fenced)),
        ("a later grant of the same owner", lock, ANN.token(TOKEN + 1), Err(Fenced)),
        ("an earlier grant, with HOLDS that are there", lock, ANN.token(1).holds(1), Err(Fenced)),
        ("NOTHELD before FENCED", lock, ANN.token(1).holds(3), Err(HoldsLost)),
        ("FENCED before the most holds", anns(MAX, DEADLINE), ANN.token(1), Err(Fenced)),
    ]);
}

#[rustfmt::skip]
#[test]
fn the_token_of_a_grant() {
    const HIGHEST: u64 = Token::MAX.number();
    let own = Ok(TOKEN);
    let used_up = Err(Refusal::TokensUsedUp);
    let lock = anns(1, DEADLINE);
    let table = [
        ("the wall clock's, ahead of the last seen", FREE, ANN, 400, 500, Ok(500)),
        ("the next, when the last seen is this moment's", FREE, ANN, 500, 500, Ok(501)),
        ("the next, when the wall clock jumped back", FREE, ANN, 700, 500, Ok(701)),
        ("the first of all, at the start of 1970", FREE, ANN, 0, 0, Ok(1)),
        ("the highest", FREE, ANN, HIGHEST - 1, 500, Ok(HIGHEST)),
        ("used up: by a token seen", FREE, ANN, HIGHEST, 500, used_up),
        ("used up: by the wall clock", FREE, ANN, 400, HIGHEST + 1, used_up),
        ("used up: NOTHELD comes before", FREE, ANN.holds(2), HIGHEST, 500, Err(Refusal::NotHeld)),
        ("used up: re-entry takes none", lock, ANN, HIGHEST, 500, own),
    ];
    for (rule, lock, request, last, micros, outcome) in table {
        let mut clock = seen(last);
        let now = UnixTime::from_micros(micros);
        let holders = lock.map(Holders::Exclusive);
        let result = acquire(holders.as_ref(), &request, false, &RULES, now, &mut clock).map(|granted| {
            let granted = granted.unwrap();
            let token = granted.holder.grant.token.number();
            (token, granted.before.map_or(token, |_| last))
        });
        assert_eq!(result.map(|(token, _)| token), outcome, "{rule}");
        assert_eq!(clock, seen(result.map_or(last, |(_, last)| last)), "{rule}: the token clock");
    }
}
