//! One task: takes a lock, writes under it, gives it back, again and again.

use super::locks::{Hold, Locks};
use super::tell;
use crate::clock::{self, micros, millis};
use crate::quorum::event::{Event, Orders, trusted_lease};
use crate::register::SqlRegister;
use history::{Acquire, Action, Call, Granted, Moment, Outcome, Register, Write};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// A rest after an answer that is neither the lock nor that it is not free.
const REST: Duration = Duration::from_millis(20);

/// A task, and what it draws its choices from.
pub(super) struct Task {
    client: u32,
    orders: Arc<Orders>,
    locks: Locks,
    register: Arc<Mutex<SqlRegister>>,
    random: StdRng,
}

/// How a lock is held.
#[derive(Clone, Copy)]
enum Work {
    /// A write and no more.
    Short,
    /// Some writes; the lock is renewed meanwhile.
    Long,
    /// Some writes, the last one when the lease is over: nothing renews it.
    Overstay,
}

impl Task {
    pub(super) fn new(
        number: u32,
        orders: Arc<Orders>,
        locks: Locks,
        register: Arc<Mutex<SqlRegister>>,
    ) -> Self {
        let random = StdRng::seed_from_u64(orders.seed ^ (u64::from(number) << 32));
        Self {
            client: orders.client(number),
            orders,
            locks,
            register,
            random,
        }
    }

    pub(super) async fn run(mut self, closing: watch::Receiver<bool>) {
        while !*closing.borrow() {
            let key = self.random.random_range(0..self.orders.keys.len());
            let key = self.orders.keys[key].clone();
            let work = match self.random.random_range(0..10) {
                0..7 => Work::Short,
                7..9 => Work::Long,
                _ => Work::Overstay,
            };
            let (shortest, longest) = self.orders.leases;
            let lease = Duration::from_millis(self.random.random_range(shortest..=longest));
            let wait = Duration::from_millis(self.random.random_range(300..=2500));
            if let Some(hold) = self.acquire(&key, lease, wait, work).await {
                self.hold(&key, lease, work, hold).await;
            }
            self.pause(0..20).await;
        }
    }

    async fn acquire(
        &self,
        key: &str,
        lease: Duration,
        wait: Duration,
        work: Work,
    ) -> Option<Hold> {
        let renews = !matches!(work, Work::Overstay);
        let asks = Acquire {
            lease: Some(millis(lease)),
            block: true,
            ..Acquire::default()
        };
        let mut call = self.send(key, "", Action::Acquire(asks), wait);
        let acquired = self.locks.acquire(key, lease, wait, renews).await;
        call.ended = self.now();
        match acquired {
            Ok(Some(hold)) => {
                // Looked at after the call's end, so it is not told too long.
                let until = call.ended + hold.valid_for().await.map_or(0, micros);
                call.owner = hold.owner();
                call.outcome = Outcome::Grant(Granted {
                    limit: None,
                    token: hold.token(),
                    owner: hold.owner(),
                    holds: 1,
                    lease: trusted_lease(millis(lease), call.ended, until),
                });
                tell(&Event::Ends { call, reason: None });
                let client = self.client;
                tell(&Event::Trusts { client, until });
                Some(hold)
            }
            Ok(None) => {
                call.outcome = Outcome::Nil;
                tell(&Event::Ends { call, reason: None });
                None
            }
            Err(reason) => {
                let reason = Some(reason);
                tell(&Event::Ends { call, reason });
                sleep(REST).await;
                None
            }
        }
    }

    /// Works under the lock. Whether it is lost is looked at after each write, never before one: what
    /// keeps late writes out is the token alone.
    async fn hold(&mut self, key: &str, lease: Duration, work: Work, hold: Hold) {
        let mut is_lost = !self.write_and_look(key, &hold).await;
        let (writes, longest_pause) = match work {
            Work::Short => (0, 1),
            Work::Long => (self.random.random_range(1..6), millis(lease) / 3),
            Work::Overstay => (2, millis(lease)),
        };
        for _ in 0..writes {
            if is_lost && !matches!(work, Work::Overstay) {
                break;
            }
            self.pause(longest_pause / 2..longest_pause + 1).await;
            is_lost = !self.write_and_look(key, &hold).await;
        }
        let mut call = self.send(key, &hold.owner(), Action::RELEASE, Duration::ZERO);
        call.outcome = hold.release().await;
        call.ended = self.now();
        tell(&Event::Ends { call, reason: None });
    }

    /// Tells of a call that is about to be made.
    fn send(&self, key: &str, owner: &str, action: Action, wait: Duration) -> Call {
        let call = Call::sent(self.client, key, owner, action, self.now());
        tell(&Event::Sends {
            call: call.clone(),
            patience: micros(wait),
        });
        call
    }

    /// Whether the lock may still be trusted afterwards.
    async fn write_and_look(&self, key: &str, hold: &Hold) -> bool {
        let (client, token) = (self.client, hold.token());
        let (register, name) = (Arc::clone(&self.register), key.to_owned());
        let origin = self.orders.origin;
        let write = tokio::task::spawn_blocking(move || {
            let mut sql = register.lock().expect("nobody died with the register");
            let sent = clock::now() - origin;
            let written = sql.write(&name, token);
            Write {
                register: Register::Sql,
                key: name,
                token,
                sent,
                ended: clock::now() - origin,
                written,
            }
        });
        tell(&Event::Wrote(write.await.expect("the database works")));
        let at = self.now();
        let left = hold.valid_for().await;
        tell(&match left {
            Some(left) => Event::Trusts {
                client,
                until: at + micros(left),
            },
            None => Event::Lost {
                client,
                at: self.now(),
            },
        });
        left.is_some()
    }

    fn now(&self) -> Moment {
        clock::now() - self.orders.origin
    }

    async fn pause(&mut self, millis: std::ops::Range<u64>) {
        let pause = self.random.random_range(millis);
        sleep(Duration::from_millis(pause)).await;
    }
}
