//! Properties over random histories.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::model::SECOND;
use super::strategies::history;
use super::world::{World, deadline, id, lease, owner, with};
use crate::sessions::{GrantName, LossReason};

fn lease_ms() -> impl Strategy<Value = u64> {
    prop_oneof![Just(5000_u64), Just(20_000), 1000..60_000_u64]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 512 }))]

    #[test]
    fn sessions_are_as_their_model(history in history()) {
        let mut world = World::new();
        for op in history {
            world.run(op);
        }
    }

    /// After a stall or a pause, what is still held is renewed nearest end first, of all sessions.
    #[test]
    fn after_a_stall_the_nearest_end_comes_first(
        grants in vec((0..4_usize, 0..4_u8, lease_ms(), prop_oneof![Just(0), 0..300_u64], any::<bool>()), 1..200),
        stall in 100..10_000_u64,
        is_told in any::<bool>(),
    ) {
        let mut world = World::new();
        for number in 1..=4 {
            world.open(number, 1, 60_000);
        }
        for (token, (session, lock, ms, pause, is_persistent)) in (1..).zip(grants) {
            let end = Some(world.model.wall() + ms).filter(|_| !is_persistent);
            with((lock, token), |name: GrantName<'_>| {
                let session = id(session as u64 + 1);
                world.sessions.join(session, name, &owner(1), lease(ms), deadline(end), world.now());
            });
            world.pass(pause * 1000 / 50);
        }
        world.pass(stall * 1000);
        if is_told {
            world.sessions.stalled(Duration::from_millis(stall));
        }
        let now = world.now();
        while let Some(ended) = world.sessions.next_ended(now) {
            world.sessions.lost(ended.name(), LossReason::Expired, now);
        }
        let was_late = world.sessions.next_due_at().is_some_and(|due| now.monotonic.since(due) > Duration::from_millis(50));
        let mut last = None;
        while let Some(grant) = world.sessions.next_due(now) {
            prop_assert!(!was_late || last <= Some(grant.deadline), "{last:?} before {grant:?}");
            last = Some(grant.deadline);
            world.sessions.renewed(&grant, deadline(Some(world.model.wall() + grant.lease.millis())), now);
        }
        prop_assert!(world.sessions.next_due_at().is_none_or(|due| due > now.monotonic));
        world.sessions.check();
        let ends = world.sessions.next_end_at().is_none_or(|end| end * 1000 > world.model.wall_micros - SECOND);
        prop_assert!(ends);
    }
}
