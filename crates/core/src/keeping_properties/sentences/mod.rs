//! The contract's sentences on kept leases, each by example.

mod keepers;
mod renewals;
mod silences;

use super::world::{lease, silence, token};
use crate::keeping::{Asked, GrantName, Keeper, KeptGrant, KeptGrants, Now};
use crate::{Deadline, Monotonic, UnixTime};

/// A registry, and the time in milliseconds since it began.
struct Server {
    registry: KeptGrants,
    monotonic: u64,
    wall: u64,
}

fn name(lock: &str, number: u64) -> GrantName<'_> {
    GrantName {
        database: 0,
        key: lock.as_bytes(),
        token: token(number),
    }
}

fn keys(grants: &[KeptGrant]) -> Vec<&str> {
    let keys = grants.iter().map(|grant| &*grant.lock_id.key);
    keys.map(|key| std::str::from_utf8(key).unwrap()).collect()
}

impl Server {
    fn new() -> Self {
        let mut server = Self {
            registry: KeptGrants::new(),
            monotonic: 0,
            wall: 0,
        };
        server.pass(0);
        server
    }

    fn now(&self) -> Now {
        Now {
            monotonic: Monotonic(1_000_000 + self.monotonic * 1000),
            unix: UnixTime::from_micros(1_700_000_000_000_000 + self.wall * 1000),
        }
    }

    fn second(&self) -> u64 {
        self.now().unix.micros() / 1_000_000
    }

    fn ends_in(&self, ms: u64) -> Deadline {
        Deadline::At(self.now().unix.millis() + ms)
    }

    fn pass(&mut self, ms: u64) {
        for step in (0..ms).step_by(10) {
            let length = (ms - step).min(10);
            self.monotonic += length;
            self.wall += length;
            self.registry.tick(self.now(), false);
        }
    }

    fn stall(&mut self, ms: u64) {
        self.monotonic += ms;
        self.wall += ms;
        self.registry.tick(self.now(), false);
    }

    fn keep(&mut self, grant: GrantName<'_>, client_id: u64, ms: u64, px: u64) -> Option<u64> {
        self.keep_by(Asked::Acquire, grant, client_id, ms, px)
    }

    fn keep_by(
        &mut self,
        asked: Asked,
        grant: GrantName<'_>,
        client_id: u64,
        ms: u64,
        px: u64,
    ) -> Option<u64> {
        let keeper = Keeper {
            client_id,
            silence: silence(ms),
            asked,
        };
        let (end, now) = (self.ends_in(px), self.now());
        self.registry.keep(grant, keeper, lease(px), end, now)
    }

    /// Renews what is due, in order.
    fn renew(&mut self) -> Vec<KeptGrant> {
        let mut renewed = Vec::new();
        let now = self.now();
        while let Some(grant) = self.registry.take_due(now) {
            let end = self.ends_in(grant.lease.millis());
            self.registry.renewed(grant.name(), grant.lease, end, now);
            renewed.push(grant);
        }
        renewed
    }

    fn silence_of(&self, grant: GrantName<'_>) -> Option<u64> {
        self.registry.get(grant).map(|kept| kept.silence.millis())
    }

    /// Passes time until the silent are asked about: after how many milliseconds this client is closed
    /// that was heard last in this second.
    fn closed_after(&mut self, client_id: u64, noted: u64) -> Option<u64> {
        for ms in (0..30_000).step_by(10) {
            if self.registry.to_ask(self.now(), 100).contains(&client_id)
                && self.registry.heard(client_id, noted, self.now())
            {
                return Some(ms);
            }
            self.pass(10);
        }
        None
    }
}
