//! One task: takes a lock, writes under it, gives it back, again and again.

use super::locks::{Denied, Hold, Locks};
use super::say;
use crate::clock::{micros, millis, now};
use crate::quorum::note::{Event, Orders};
use crate::register::SqlRegister;
use history::Written;
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
    number: u32,
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
            number,
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
        let sent = now();
        let patience = micros(wait);
        self.say(key, Event::Asks { sent, patience });
        let outcome = self.locks.acquire(key, lease, wait, renews).await;
        let ended = now();
        match outcome {
            Ok(hold) => {
                let granted = Event::Granted {
                    owner: hold.owner(),
                    token: hold.token(),
                    lease: millis(lease),
                    sent,
                    ended,
                    // Looked at after `ended`, so it is not told too long.
                    until: ended + hold.valid_for().map_or(0, micros),
                };
                self.say(key, granted);
                Some(hold)
            }
            Err(denied) => {
                let reason = match denied {
                    Denied::NotFree => None,
                    Denied::Failed(reason) => Some(reason),
                };
                let failed = reason.is_some();
                let denied = Event::Denied {
                    sent,
                    ended,
                    reason,
                };
                self.say(key, denied);
                if failed {
                    sleep(REST).await;
                }
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
        let (owner, sent) = (hold.owner(), now());
        let begun = Event::GivesBack {
            owner: owner.clone(),
            sent,
        };
        self.say(key, begun);
        let release = hold.release().await;
        let ended = now();
        let released = Event::Released {
            owner,
            sent,
            ended,
            release,
        };
        self.say(key, released);
    }

    /// Whether the lock may still be trusted afterwards.
    async fn write_and_look(&self, key: &str, hold: &Hold) -> bool {
        let token = hold.token();
        let (register, name) = (Arc::clone(&self.register), key.to_owned());
        let write = tokio::task::spawn_blocking(move || {
            let mut register = register.lock().expect("nobody died with the register");
            let sent = now();
            let written = register.write(&name, token);
            (sent, now(), written)
        });
        let (sent, ended, written) = write.await.expect("the database works");
        let event = Event::Wrote {
            token,
            sent,
            ended,
            taken: written == Written::Taken,
        };
        self.say(key, event);
        let at = now();
        let left = hold.valid_for();
        let event = match left {
            Some(left) => Event::Trusts {
                token,
                until: at + micros(left),
            },
            None => Event::Lost { token, at: now() },
        };
        self.say(key, event);
        left.is_some()
    }

    fn say(&self, key: &str, event: Event) {
        say(self.number, key, event);
    }

    async fn pause(&mut self, millis: std::ops::Range<u64>) {
        let pause = self.random.random_range(millis);
        sleep(Duration::from_millis(pause)).await;
    }
}
