//! The times between tries.

use std::time::Duration;
use uuid::Uuid;

/// None at first, then from 50 ms growing to 1 s, with jitter.
#[derive(Default)]
pub(crate) struct Pauses {
    tries: u32,
}

impl Pauses {
    pub(crate) fn next(&mut self) -> Duration {
        self.tries += 1;
        if self.tries == 1 {
            return Duration::ZERO;
        }
        let longest = 50_u64 << (self.tries - 2).min(5);
        let half = Duration::from_millis(longest.min(1000) / 2);
        half + random(half)
    }
}

/// A random part of a time.
pub(crate) fn random(time: Duration) -> Duration {
    time * u32::from(Uuid::new_v4().as_bytes()[0]) / 256
}
