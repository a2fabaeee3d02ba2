//! Properties over random histories.

use proptest::prelude::*;

use super::strategies::history;
use super::world::World;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sessions_are_as_their_model(history in history()) {
        let mut world = World::new();
        for op in history {
            world.run(op);
        }
    }
}
