//! Runs the core's part of an uncontended lock and unlock, as often as the argument says. It does nothing
//! else, so two runs of different length differ by the instructions of the pairs.

use std::env;
use std::hint::black_box;

use redis_lock_core::{
    Acquire, EffectBuffer, Holder, Holders, Lease, Limit, LockChange, Owner, Refusal, Release,
    ReleaseAmount, Rules, TokenClock, UnixTime, acquire, release,
};

const OWNER: &[u8] = b"2a9f7c1e-5b60-4d38-9e1f-7c06d3a5b8e4";
const LEASE_MS: u64 = 30_000;

fn main() {
    let pairs: u64 = env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .expect("the number of pairs");
    let owner = Owner::new(OWNER).expect("an owner");
    let lease = Lease::from_millis(LEASE_MS).expect("a lease");
    let rules = Rules {
        default_lease: lease,
        max_token_lead_ms: 5000,
        max_holders: 10_000,
    };
    let mut clock = TokenClock::new();
    let mut buffer = EffectBuffer::new();
    for number in 0..pairs {
        let now = UnixTime::from_micros(black_box(1_795_000_000_000_000 + number));
        let pair = lock_and_unlock(owner, lease, &rules, now, &mut clock, &mut buffer);
        black_box(pair).expect("a free lock is granted, and its owner may release it");
    }
}

/// The lock is written as an effect and its record is read in between, as in the server.
fn lock_and_unlock<'a>(
    owner: Owner<'a>,
    lease: Lease,
    rules: &Rules,
    now: UnixTime,
    clock: &mut TokenClock,
    buffer: &mut EffectBuffer,
) -> Result<LockChange<'a>, Refusal> {
    let request = Acquire {
        owner,
        limit: Limit::ONE,
        lease: Some(lease),
        holds: None,
        token: None,
    };
    let granted = acquire(None, black_box(&request), false, rules, now, clock)?;
    let holder = granted.ok_or(Refusal::NotOwner)?.holder;
    let record = black_box(holder.effect(false, buffer).record());
    let holder = Holder::read(record, Limit::ONE, holder.end).ok_or(Refusal::NotHeld)?;
    let request = Release {
        owner,
        amount: ReleaseAmount::One,
        token: None,
    };
    let holders = Holders::Exclusive(holder);
    Ok(release(Some(&holders), black_box(&request), || now)?.change)
}
