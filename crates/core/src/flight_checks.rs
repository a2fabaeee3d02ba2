//! What is so of the flights at every moment: for the tests, and for a fuzzer.

use super::Flights;

impl Flights {
    /// Panics unless what is known of the grants is what is on its way.
    pub(crate) fn check(&self) {
        for (place, known) in &self.grants {
            let calls = self.calls.values();
            let on_the_way = calls
                .filter(|handed| handed.place == *place && handed.token == known.token)
                .count();
            assert!(on_the_way > 0, "a grant that nobody is on the way with");
            assert_eq!(known.on_the_way, on_the_way, "calls on the way");
        }
    }

    /// How many entries there are, of any kind.
    pub(crate) fn entries(&self) -> usize {
        self.calls.len() + self.grants.len()
    }
}
