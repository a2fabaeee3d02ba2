//! What clients and administrators do.

use super::world::{
    EXCLUSIVE, Keeping, MILLI, Mode, Name, Standing, World, database, lease, silence, token, with,
};
use crate::Deadline;
use crate::keeping::{Asked, Keeper};

#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    /// An acquire or renewal with KEEP, by the n-th client, of the n-th grant of a lock.
    Keep {
        client: usize,
        lock: u8,
        share: usize,
        asked: Asked,
        silence: u64,
        lease: u64,
    },
    /// A renewal without KEEP, from anywhere; or a re-entry.
    Renew {
        grant: usize,
        asked: Asked,
        lease: u64,
    },
    /// `KEEP 0`.
    End {
        grant: usize,
        client: usize,
    },
    Release {
        grant: usize,
    },
    /// A waiting call that was to keep it was not answered.
    GiveBack {
        grant: usize,
        client: usize,
    },
    Raise {
        grant: usize,
    },
    Del {
        lock: u8,
    },
    /// A share alone is lost.
    Lose {
        grant: usize,
    },
    Flush {
        database: i32,
    },
    FlushAll,
    Pexpire {
        grant: usize,
        ms: u64,
    },
    Persist {
        grant: usize,
    },
    Close {
        client: usize,
    },
    Pace {
        client: usize,
        ms: u64,
    },
}

impl World {
    fn nth(&self, n: usize) -> Option<Name> {
        let names: Vec<_> = self.standing.keys().copied().collect();
        let index = n.checked_rem(names.len())?;
        self.stands(names[index]).map(|_| names[index])
    }

    fn may_write(&self, lock: u8) -> bool {
        match self.mode {
            Mode::Free => true,
            Mode::NoWrites | Mode::Paused => false,
            Mode::Down(down) => down != lock,
        }
    }

    /// The lease begins now.
    fn begin(&mut self, name: Name, asked: Asked, lease: u64) -> Standing {
        let now = self.millis();
        let before = self.stands(name);
        let mut standing = Standing {
            lease,
            deadline: Some(now + lease),
            began: self.now,
            is_lifted: false,
            is_unseen: false,
        };
        if let (Some(before), Asked::Acquire) = (before, asked) {
            standing.lease = lease.max(before.lease);
            standing.deadline = before.deadline.map(|end| end.max(now + standing.lease));
        }
        self.standing.insert(name, standing);
        standing
    }

    pub(super) fn call(&mut self, call: Call) {
        match call {
            Call::Keep {
                client,
                lock,
                share,
                asked,
                silence,
                lease,
            } => {
                self.keep(client, lock, share, asked, silence, lease);
            }
            Call::Renew {
                grant,
                asked,
                lease,
            } => {
                if let Some(name) = self.nth(grant).filter(|name| self.may_write(name.0)) {
                    self.before_command(name.0);
                    let standing = self.begin(name, asked, lease);
                    let now = self.time();
                    with(name, |name| {
                        let lease = super::world::lease(standing.lease);
                        self.registry.renewed(name, lease, standing.deadline(), now);
                    });
                }
            }
            Call::End { grant, client } => {
                let caller = self.clients[client];
                if let Some(name) = self.nth(grant).filter(|name| self.may_write(name.0))
                    && caller.is_open
                {
                    let other = self
                        .keeping
                        .remove(&name)
                        .filter(|kept| kept.client != caller.id);
                    let close = with(name, |name| self.registry.end(name, caller.id));
                    assert_eq!(close, other.map(|kept| kept.client));
                    if let Some(id) = close {
                        self.closed(id);
                        self.reached.insert("ended by another");
                    }
                }
            }
            Call::Release { grant } => {
                if let Some(name) = self.nth(grant).filter(|name| self.may_write(name.0)) {
                    with(name, |name| self.registry.released(name));
                    self.standing.remove(&name);
                    self.keeping.remove(&name);
                }
            }
            Call::GiveBack { grant, client } => {
                let caller = self.clients[client].id;
                if let Some(name) = self.nth(grant) {
                    with(name, |name| self.registry.given_back(name, caller));
                    let is_its = |kept: &Keeping| kept.client == caller;
                    if self.keeping.get(&name).is_some_and(is_its) {
                        self.keeping.remove(&name);
                        self.reached.insert("kept, and given back");
                    }
                }
            }
            Call::Raise { grant } => {
                if let Some(name) = self.nth(grant).filter(|name| self.may_write(name.0)) {
                    self.last_token += 7;
                    let to = (name.0, self.last_token);
                    with(name, |name| self.registry.raised(name, token(to.1)));
                    let standing = self.standing.remove(&name).expect("it stands");
                    self.standing.insert(to, standing);
                    if let Some(kept) = self.keeping.remove(&name) {
                        self.keeping.insert(to, kept);
                    }
                }
            }
            _ => self.event(call),
        }
    }

    fn event(&mut self, call: Call) {
        match call {
            Call::Del { lock } => {
                let lost = self.registry.lost_lock(database(lock), &[lock]);
                self.gone(lost, |name| name.0 == lock);
            }
            Call::Lose { grant } => {
                if let Some(gone) = self.nth(grant) {
                    let lost = with(gone, |name| self.registry.lost(name));
                    self.gone(lost.into_iter().collect(), |name| name == gone);
                }
            }
            Call::Flush { database: flushed } => {
                let lost = self.registry.lost_database(flushed);
                self.gone(lost, |name| database(name.0) == flushed);
            }
            Call::FlushAll => {
                let lost = self.registry.lost_all();
                self.gone(lost, |_| true);
            }
            Call::Pexpire { grant, ms } => {
                if let Some(name) = self.nth(grant).filter(|name| name.0 < EXCLUSIVE) {
                    let deadline = self.millis() + ms;
                    let now = self.now;
                    let standing = self.standing.get_mut(&name).expect("it stands");
                    if standing.deadline.replace(deadline).is_none() {
                        standing.began = now;
                        standing.is_lifted = true;
                        standing.is_unseen = true;
                        self.reached.insert("lifted by hand");
                    }
                }
            }
            Call::Persist { grant } => {
                if let Some(name) = self.nth(grant).filter(|name| name.0 < EXCLUSIVE) {
                    self.standing.get_mut(&name).expect("it stands").deadline = None;
                }
            }
            Call::Close { client } => {
                let client = self.clients[client];
                if client.is_open {
                    self.registry.client_closed(client.id);
                    self.closed(client.id);
                }
                // A new connection of the same process.
                let id = self
                    .clients
                    .iter()
                    .map(|client| client.id)
                    .max()
                    .unwrap_or_default()
                    + 1;
                let alive = self.alive();
                let new = self.clients.iter_mut().find(|other| other.id == client.id);
                let new = new.expect("the client");
                new.id = id;
                new.is_open = true;
                new.sent = alive;
                new.is_unread = true;
            }
            Call::Pace { client, ms } => {
                let now = self.now;
                let client = &mut self.clients[client];
                client.pace = ms * MILLI;
                client.sends_next = now + ms * MILLI;
            }
            _ => unreachable!("a call on a lock"),
        }
    }

    /// These grants are gone, and the connections that kept them are to be closed.
    fn gone(&mut self, mut closed: Vec<u64>, is_gone: impl Fn(Name) -> bool) {
        let kept = self.keeping.iter().filter(|(name, _)| is_gone(**name));
        let mut expected: Vec<_> = kept.map(|(_, kept)| kept.client).collect();
        expected.sort_unstable();
        expected.dedup();
        closed.sort_unstable();
        assert_eq!(closed, expected);
        self.standing.retain(|name, _| !is_gone(*name));
        for id in closed {
            self.closed(id);
        }
    }

    fn keep(&mut self, client: usize, lock: u8, share: usize, asked: Asked, ms: u64, length: u64) {
        if !self.may_write(lock) || !self.clients[client].is_open {
            return;
        }
        self.before_command(lock);
        if !self.clients[client].is_open {
            // Its own command found that it had lost something.
            return;
        }
        let held: Vec<_> = self
            .standing
            .keys()
            .copied()
            .filter(|name| name.0 == lock)
            .collect();
        let held: Vec<_> = held
            .into_iter()
            .filter(|name| self.stands(*name).is_some())
            .collect();
        let present = if lock < EXCLUSIVE {
            held.first()
        } else {
            held.get(share)
        };
        let name = present.copied().unwrap_or_else(|| {
            self.last_token += 1;
            (lock, self.last_token)
        });
        let standing = self.begin(name, asked, length);
        let caller = self.clients[client].id;
        let before = self.keeping.get(&name).copied();
        let silent = match (asked, before) {
            (Asked::Acquire, Some(before)) => ms.max(before.silence),
            _ => ms,
        };
        let keeper = Keeper {
            client_id: caller,
            silence: silence(ms),
            asked,
        };
        let now = self.time();
        let close = with(name, |name| {
            let deadline: Deadline = standing.deadline();
            self.registry
                .keep(name, keeper, lease(standing.lease), deadline, now)
        });
        let other = before.filter(|before| before.client != caller);
        assert_eq!(close, other.map(|before| before.client));
        self.keeping.insert(
            name,
            Keeping {
                client: caller,
                silence: silent,
            },
        );
        if let Some(id) = close {
            self.closed(id);
            self.reached.insert("taken over");
        }
        // The call itself was heard.
        let (alive, second) = (self.alive(), self.wall() / 1_000_000);
        let set_back = self.set_back;
        let client = &mut self.clients[client];
        (client.sent, client.noted, client.is_unread) = (alive, second, false);
        client.set_back = set_back;
        client.was_silent = (0, 0);
    }
}
