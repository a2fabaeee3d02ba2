//! Every rule and every refusal as tables: the lock, the request, the outcome.
//!
//! The wall clock is at 100 s. Ann acquired the lock at 90 s, with that time as its token and a lease of
//! 30 s; no later token was seen. Bob holds nothing.
#![expect(
    clippy::unnecessary_wraps,
    reason = "the cells of a table have the type of the outcome"
)]

mod acquiring;

use super::*;
use crate::{Deadline, Lease, Owner};

const NOW: UnixTime = UnixTime::from_micros(100_000_000);
const DEADLINE: Deadline = Deadline::At(120_000);
const RENEWED: Deadline = Deadline::At(130_000);
const LATER: Deadline = Deadline::At(900_000);
const TOKEN: u64 = 90_000_000;
const LEASE: u64 = 30_000;
const MAX: u32 = Holds::MAX.number();
const FREE: Option<Holder<'static>> = None;

const RULES: Rules = Rules {
    default_lease: Lease::from_millis(20_000).unwrap(),
    max_token_lead_ms: 5_000,
    max_holders: 1,
};
/// The highest token that a raise may reach: 100 s plus the lead.
const FURTHEST: u64 = 105_000_000;

const fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

const fn grant(token_number: u64, holds: u32, lease: u64) -> Grant {
    Grant {
        token: token(token_number),
        holds: Holds::new(holds).unwrap(),
        lease: Lease::from_millis(lease).unwrap(),
    }
}

const fn named(owner: &'static [u8]) -> Owner<'static> {
    Owner::new(owner).unwrap()
}

/// Ann's lock with this hold count and deadline.
const fn anns(holds: u32, deadline: Deadline) -> Option<Holder<'static>> {
    Some(Holder {
        owner: named(b"ann"),
        grant: grant(TOKEN, holds, LEASE),
        limit: Limit::ONE,
        end: deadline,
    })
}

/// Ann with this grant and deadline.
const fn ann_with(grant: Grant, end: Deadline) -> Holder<'static> {
    Holder {
        owner: named(b"ann"),
        grant,
        limit: Limit::ONE,
        end,
    }
}

const fn seen(number: u64) -> TokenClock {
    TokenClock::after(Token::new(number))
}

#[rustfmt::skip]
#[test]
fn releasing() {
    use Refusal::{Fenced, NotHeld, NotOwner};
    use ReleaseAmount::{All, DownTo, One};
    let by = |owner: &'static [u8], amount, number| Release { owner: named(owner), amount, token: Token::new(number) };
    // A token of 0 stands for none given.
    let ann = |amount| by(b"ann", amount, 0);
    let bob = |amount| by(b"bob", amount, 0);
    let bound = |amount, number| by(b"ann", amount, number);
    let free = Ok((0, LockChange::Free));
    let left = |holds, deadline| {
        Ok((holds, LockChange::Exclusive(ann_with(grant(TOKEN, holds, LEASE), deadline))))
    };
    let kept = |holds| Ok((holds, LockChange::Keep));
    let (once, thrice) = (anns(1, DEADLINE), anns(3, DEADLINE));
    let (later, persisted) = (anns(3, LATER), anns(3, Deadline::Never));

    for (rule, lock, request, outcome) in [
        ("a free lock", FREE, ann(One), Err(NotHeld)),
        ("a free lock: ALL", FREE, ann(All), Err(NotHeld)),
        ("a free lock: HOLDS 0", FREE, ann(DownTo(0)), Err(NotHeld)),
        ("a free lock: NOTHELD before FENCED", FREE, bound(One, TOKEN), Err(NotHeld)),
        ("another's lock", once, bob(One), Err(NotOwner)),
        ("another's lock: ALL", once, bob(All), Err(NotOwner)),
        ("another's lock: HOLDS 0", once, bob(DownTo(0)), Err(NotOwner)),
        ("another's lock: HOLDS it has", once, bob(DownTo(1)), Err(NotOwner)),
        ("another's lock, with its token", once, by(b"bob", All, TOKEN), Err(NotOwner)),
        ("another's lock: NOTOWNER before FENCED", once, by(b"bob", All, 1), Err(NotOwner)),
        ("owners differ in every byte", once, by(b"ann\0", All, 0), Err(NotOwner)),

        ("one hold of three, the lease refreshed", thrice, ann(One), left(2, RENEWED)),
        ("one hold of the most", anns(MAX, DEADLINE), ann(One), left(MAX - 1, RENEWED)),
        ("a later deadline stays", later, ann(One), left(2, LATER)),
        ("no deadline stays none", persisted, ann(One), left(2, Deadline::Never)),
        ("the last hold frees", once, ann(One), free),
        ("the last hold frees, with no deadline too", anns(1, Deadline::Never), ann(One), free),
        ("ALL frees", thrice, ann(All), free),
        ("ALL frees the most holds", anns(MAX, DEADLINE), ann(All), free),

        ("HOLDS below the count: down to it", thrice, ann(DownTo(1)), left(1, RENEWED)),
        ("HOLDS: a later deadline stays", later, ann(DownTo(1)), left(1, LATER)),
        ("HOLDS: no deadline stays none", persisted, ann(DownTo(1)), left(1, Deadline::Never)),
        ("HOLDS 0 frees", thrice, ann(DownTo(0)), free),
        ("HOLDS as many as it has: nothing, not the lease", thrice, ann(DownTo(3)), kept(3)),
        ("HOLDS more than it has: nothing, not the lease", thrice, ann(DownTo(4)), kept(3)),
        ("HOLDS, the highest number", thrice, ann(DownTo(u32::MAX)), kept(3)),

        ("TOKEN of the grant: one", thrice, bound(One, TOKEN), left(2, RENEWED)),
        ("TOKEN of the grant: ALL", thrice, bound(All, TOKEN), free),
        ("TOKEN of the grant: HOLDS", thrice, bound(DownTo(2), TOKEN), left(2, RENEWED)),
        ("TOKEN of an earlier grant: one", thrice, bound(One, TOKEN - 1), Err(Fenced)),
        ("TOKEN of an earlier grant: ALL", thrice, bound(All, TOKEN - 1), Err(Fenced)),
        ("TOKEN of an earlier grant: HOLDS it has", thrice, bound(DownTo(3), TOKEN - 1), Err(Fenced)),
        ("TOKEN of a later grant", thrice, bound(One, TOKEN + 1), Err(Fenced)),
    ] {
        let released = release(lock.map(Holders::Exclusive).as_ref(), &request, NOW);
        assert_eq!(released.map(|released| (released.holder.map_or(0, |holder| holder.grant.holds.number()), released.change)), outcome, "{rule}");
        if let (Ok(released), Some(lock)) = (released, lock) {
            assert_eq!(released.before, lock.grant, "{rule}");
            let after = released.change.holder().copied();
            let after = after.or(Some(lock).filter(|_| released.change == LockChange::Keep));
            assert_eq!(released.holder, after, "{rule}");
        }
    }
}

#[rustfmt::skip]
#[test]
fn renewing() {
    use Refusal::{Ahead, Fenced, NotHeld, NotOwner};
    let by = |owner: &'static [u8], millis, number| Renew::new(named(owner), None, Lease::from_millis(millis), Token::new(number));
    // A lease or a token of 0 stands for none given.
    let ann = |millis| by(b"ann", millis, 0);
    let raised = |owner: &'static [u8], from, to| Renew::raise(named(owner), None, token(from), token(to)).unwrap();
    let raise = |from, to| raised(b"ann", from, to);
    let to = |number, holds, lease, deadline| {
        let holder = ann_with(grant(number, holds, lease), Deadline::At(deadline));
        Ok((holder, LockChange::Exclusive(holder)))
    };
    let lifted = |number| to(number, 1, LEASE, 130_000);
    let (lock, same) = (anns(1, DEADLINE), to(TOKEN, 1, LEASE, 130_000));
    let kept = Ok((ann_with(grant(TOKEN, 1, LEASE), RENEWED), LockChange::Keep));
    let long_raise = Renew::raise(named(b"ann"), Lease::from_millis(60_000), token(TOKEN), token(TOKEN + 5)).unwrap();

    // The last two columns: the last token seen, before and after.
    for (rule, lock, request, outcome, before, after) in [
        ("a free lock", FREE, ann(0), Err(NotHeld), TOKEN, TOKEN),
        ("a free lock: NOTHELD before FENCED", FREE, by(b"ann", 0, 1), Err(NotHeld), TOKEN, TOKEN),
        ("a free lock: NOTHELD before AHEAD", FREE, raise(TOKEN, FURTHEST + 1), Err(NotHeld), TOKEN, TOKEN),
        ("another's lock", lock, by(b"bob", 0, 0), Err(NotOwner), TOKEN, TOKEN),
        ("another's lock, with its token", lock, by(b"bob", 0, TOKEN), Err(NotOwner), TOKEN, TOKEN),
        ("another's lock: NOTOWNER before FENCED", lock, by(b"bob", 0, 1), Err(NotOwner), TOKEN, TOKEN),
        ("another's lock: a raise", lock, raised(b"bob", TOKEN, TOKEN + 5), Err(NotOwner), TOKEN, TOKEN),
        ("another's lock: NOTOWNER before AHEAD", lock, raised(b"bob", TOKEN, FURTHEST + 1), Err(NotOwner), TOKEN, TOKEN),
        ("another's lock at the raised token", lock, raised(b"bob", 1, TOKEN), Err(NotOwner), TOKEN, TOKEN),

        ("the remembered lease, from now", lock, ann(0), same, TOKEN, TOKEN),
        ("a longer lease is remembered", lock, ann(60_000), to(TOKEN, 1, 60_000, 160_000), TOKEN, TOKEN),
        ("a shorter lease shortens", lock, ann(5), to(TOKEN, 1, 5, 100_005), TOKEN, TOKEN),
        ("a later deadline is drawn in", anns(1, LATER), ann(0), same, TOKEN, TOKEN),
        ("a persisted lock has a deadline again", anns(1, Deadline::Never), ann(0), same, TOKEN, TOKEN),
        ("the holds stay", anns(MAX, DEADLINE), ann(0), to(TOKEN, MAX, LEASE, 130_000), TOKEN, TOKEN),
        ("nothing to change: repeated in the same moment", anns(1, RENEWED), ann(0), kept, TOKEN, TOKEN),
        ("TOKEN of the grant", lock, by(b"ann", 0, TOKEN), same, TOKEN, TOKEN),
        ("TOKEN of an earlier grant", lock, by(b"ann", 0, TOKEN - 1), Err(Fenced), TOKEN, TOKEN),
        ("TOKEN of a later grant", lock, by(b"ann", 0, TOKEN + 1), Err(Fenced), TOKEN, TOKEN),

        ("a raise lifts the grant and the clock", lock, raise(TOKEN, TOKEN + 5), lifted(TOKEN + 5), TOKEN, TOKEN + 5),
        ("a raise renews by the lease given", lock, long_raise, to(TOKEN + 5, 1, 60_000, 160_000), TOKEN, TOKEN + 5),
        ("a raise keeps the holds", anns(7, LATER), raise(TOKEN, TOKEN + 5), to(TOKEN + 5, 7, LEASE, 130_000), TOKEN, TOKEN + 5),
        ("a raise gives a persisted lock a deadline", anns(1, Deadline::Never), raise(TOKEN, TOKEN + 5), lifted(TOKEN + 5), TOKEN, TOKEN + 5),
        ("a raise below the last seen leaves the clock", lock, raise(TOKEN, TOKEN + 5), lifted(TOKEN + 5), TOKEN + 9, TOKEN + 9),
        ("a raise to the same token renews", lock, raise(TOKEN, TOKEN), same, TOKEN, TOKEN),
        ("a raise repeated: already there", lock, raise(TOKEN - 5, TOKEN), same, TOKEN, TOKEN),
        ("a raise repeated in the same moment", anns(1, RENEWED), raise(TOKEN - 5, TOKEN), kept, TOKEN, TOKEN),
        ("a raise from another grant", lock, raise(TOKEN - 5, TOKEN + 5), Err(Fenced), TOKEN, TOKEN),
        ("a raise from another grant, below this", lock, raise(TOKEN - 5, TOKEN - 1), Err(Fenced), TOKEN, TOKEN),
        ("a raise from a later grant", lock, raise(TOKEN + 5, TOKEN + 6), Err(Fenced), TOKEN, TOKEN),
        ("a raise from a later grant to the same", lock, raise(TOKEN + 5, TOKEN + 5), Err(Fenced), TOKEN, TOKEN),
        ("FENCED before AHEAD", lock, raise(TOKEN - 5, FURTHEST + 1), Err(Fenced), TOKEN, TOKEN),
        ("a raise as far as the lead", lock, raise(TOKEN, FURTHEST), lifted(FURTHEST), TOKEN, FURTHEST),
        ("a raise beyond the lead", lock, raise(TOKEN, FURTHEST + 1), Err(Ahead), TOKEN, TOKEN),
        ("a raise to the highest token", lock, raise(TOKEN, Token::MAX.number()), Err(Ahead), TOKEN, TOKEN),
        ("a raise beyond the lead, to a token seen", lock, raise(TOKEN, FURTHEST + 1), lifted(FURTHEST + 1), FURTHEST + 1, FURTHEST + 1),
        ("a raise beyond the lead, below one seen", lock, raise(TOKEN, FURTHEST + 1), lifted(FURTHEST + 1), FURTHEST + 9, FURTHEST + 9),
        ("a raise beyond the lead and every token seen", lock, raise(TOKEN, FURTHEST + 9), Err(Ahead), FURTHEST + 8, FURTHEST + 8),
    ] {
        let mut clock = seen(before);
        let renewed = renew(lock.map(Holders::Exclusive).as_ref(), &request, &RULES, NOW, &mut clock);
        assert_eq!(renewed.map(|renewed| (renewed.holder, renewed.change)), outcome, "{rule}");
        assert_eq!(renewed.ok().map(|renewed| renewed.before), outcome.ok().map(|_| lock.map(|held| held.grant)), "{rule}");
        assert_eq!(clock, seen(after), "{rule}: the token clock");
    }
}

#[test]
fn the_lead_of_a_raise_is_measured_from_the_wall_clock_and_never_overflows() {
    let lock = anns(1, DEADLINE);
    let highest = Renew::raise(named(b"ann"), None, token(TOKEN), Token::MAX).unwrap();
    let again = Renew::raise(named(b"ann"), None, token(TOKEN), token(TOKEN)).unwrap();
    for (rule, request, lead, micros, outcome) in [
        ("no lead: the current time", again, 0, TOKEN, None),
        ("back in time: the token it has", again, 0, 0, None),
        ("no bound", highest, u64::MAX, 0, None),
        ("the end of time", highest, 5_000, u64::MAX, None),
        ("too early", highest, 5_000, 0, Some(Refusal::Ahead)),
    ] {
        let rules = Rules {
            max_token_lead_ms: lead,
            ..RULES
        };
        let now = UnixTime::from_micros(micros);
        let result = renew(
            lock.map(Holders::Exclusive).as_ref(),
            &request,
            &rules,
            now,
            &mut seen(TOKEN),
        );
        assert_eq!(result.err(), outcome, "{rule}");
    }
}

#[test]
fn a_raise_never_lowers() {
    let raise = |from, to| Renew::raise(named(b"ann"), None, token(from), token(to)).is_some();
    assert!(raise(5, 6) && raise(5, 5) && !raise(5, 4));
}

#[test]
fn fencing() {
    let lock = anns(1, DEADLINE);
    for (rule, lock, number, outcome) in [
        ("the current grant's token", lock, TOKEN, Ok(())),
        ("an earlier token", lock, TOKEN - 1, Err(Refusal::Fenced)),
        ("a later token", lock, TOKEN + 1, Err(Refusal::Fenced)),
        ("a free lock", FREE, TOKEN, Err(Refusal::Fenced)),
    ] {
        assert_eq!(
            fence(lock.map(Holders::Exclusive).as_ref(), token(number), NOW),
            outcome,
            "{rule}"
        );
    }
}

#[test]
fn an_owner_is_1_to_256_bytes_of_any_kind() {
    let longest = [0; 256];
    assert_eq!(Owner::new(b""), None);
    assert_eq!(Owner::new(b"\0").map(Owner::bytes), Some(&b"\0"[..]));
    assert_eq!(Owner::new(&longest).map(Owner::bytes), Some(&longest[..]));
    assert_eq!(Owner::new(&[0; 257]), None);
}

#[test]
fn a_hold_count_is_1_to_2_147_483_647() {
    assert_eq!(Holds::new(0), None);
    assert_eq!(Holds::new(1), Some(Holds::ONE));
    assert_eq!(Holds::new(2_147_483_647), Some(Holds::MAX));
    assert_eq!(Holds::new(2_147_483_648), None);
    assert_eq!(Holds::MAX.number(), 2_147_483_647);
}
