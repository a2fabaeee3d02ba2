//! The system under test: the core's rules, one lock with its queue, and a replica of it that gets
//! effects alone.

use std::collections::BTreeMap;

use super::model::{
    Amount, Call, DEFAULT_LEASE, Event, FULL, Holder, MAX_LEAD, Model, NOT_RAISABLE, Reply,
    SEVERAL, USED_UP, Verb,
};
use crate::sharing::{
    Admitted, Granted, Holders, Room, Share, ShareChange, ShareEffectBuffer, Shared, Shares, Step,
    Transition, acquire, fence, next_in_line, release, renew,
};
use crate::{
    Acquire, Deadline, EffectBuffer, Grant, Held, Holds, Lease, Limit, Monotonic, Owner, OwnerBuf,
    Queues, Refusal, Release, ReleaseAmount, Renew, Rules, Token, TokenClock, UnixTime, Waiter,
    WaiterId,
};

pub(super) const OWNERS: usize = 40;
const KEY: &[u8] = b"lock";

/// A key of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Free,
    Alone(Held<'static>),
    Shared(Shares, Deadline),
}

#[derive(Debug)]
pub(super) struct System {
    pub(super) lock: Stored,
    pub(super) replica: Stored,
    clock: TokenClock,
    now: UnixTime,
    max_holders: usize,
    queues: Queues,
    numbers: BTreeMap<WaiterId, usize>,
    joined: usize,
    pub(super) told: Vec<(usize, Reply)>,
}

pub(super) fn owner(index: usize) -> Owner<'static> {
    // Names that are easily confused, of several lengths.
    static NAMES: [&[u8]; OWNERS] = {
        static BYTES: [[u8; OWNERS]; 2] = [[b'o'; OWNERS], [b'O'; OWNERS]];
        let mut names: [&[u8]; OWNERS] = [&[]; OWNERS];
        let mut index = 0;
        while index < OWNERS {
            names[index] = BYTES[index % 2].split_at(1 + index / 2).0;
            index += 1;
        }
        names
    };
    Owner::new(NAMES[index]).unwrap()
}

fn index(owner: Owner<'_>) -> usize {
    2 * (owner.bytes().len() - 1) + usize::from(owner.bytes()[0] == b'O')
}

impl Stored {
    pub(super) fn holders(&self) -> Option<Holders<'_>> {
        match self {
            Self::Free => None,
            Self::Alone(held) => Some(Holders::Alone(*held)),
            Self::Shared(shares, expiry) => Some(Holders::Shared(Shared {
                shares,
                expiry: *expiry,
            })),
        }
    }

    pub(super) fn expiry(&self) -> Option<Deadline> {
        match self {
            Self::Free => None,
            Self::Alone(held) => Some(held.deadline),
            Self::Shared(_, expiry) => Some(*expiry),
        }
    }

    fn set_expiry(&mut self, at: Deadline) {
        match self {
            Self::Free => {}
            Self::Alone(held) => held.deadline = at,
            Self::Shared(_, expiry) => *expiry = at,
        }
    }

    /// What Redis does to a key.
    fn apply(&mut self, event: Event, now: UnixTime) {
        match event {
            Event::Pexpire(ms) => {
                self.set_expiry(Lease::from_millis(ms).unwrap().deadline_from(now));
            }
            Event::Persist => self.set_expiry(Deadline::Never),
            Event::Del => *self = Self::Free,
            _ => {}
        }
        if self
            .expiry()
            .is_some_and(|at| at < Deadline::At(now.millis()))
        {
            *self = Self::Free;
        }
    }

    fn change(&mut self, transition: Transition<'_>) {
        let fixed = |held: Held<'_>| Held {
            owner: owner(index(held.owner)),
            grant: held.grant,
            deadline: held.deadline,
        };
        match transition {
            Transition::Keep => {}
            Transition::Free => *self = Self::Free,
            Transition::Alone(held) => *self = Self::Alone(fixed(held)),
            Transition::Share(change) => {
                let shares = match self {
                    Self::Shared(shares, _) => Some(shares),
                    _ => None,
                };
                if let Some(new) = change.apply(shares).expect("the lock it was made for") {
                    *self = Self::Shared(new, Deadline::Never);
                }
                self.set_expiry(Deadline::At(change.latest_end));
            }
        }
    }

    /// The holders whose lease has not ended, as the model tells them.
    pub(super) fn live(&self, now: UnixTime) -> Vec<Holder> {
        let to_model = |owner, grant: Grant, limit: Limit, end| Holder {
            owner: index(owner),
            token: grant.token.number(),
            holds: grant.holds.number().into(),
            lease: grant.lease.millis(),
            limit: limit.number().into(),
            end,
        };
        match self {
            Self::Free => Vec::new(),
            Self::Alone(Held {
                owner,
                grant,
                deadline,
            }) => {
                let end = match deadline {
                    Deadline::At(at) => Some(*at),
                    Deadline::Never => None,
                };
                vec![to_model(*owner, *grant, Limit::ONE, end)]
            }
            Self::Shared(shares, expiry) => {
                let lock = Shared {
                    shares,
                    expiry: *expiry,
                };
                let live: Vec<_> = lock
                    .live(now)
                    .map(|share| to_model(share.owner, share.grant, share.limit, Some(share.end)))
                    .collect();
                assert_eq!(live.len(), lock.live_count(now));
                let least = lock.live(now).map(|share| share.limit).min();
                assert_eq!(lock.live_least_limit(now), least.unwrap_or(Limit::NONE));
                live
            }
        }
    }
}

impl System {
    pub(super) fn like(model: &Model) -> Self {
        let mut lock = Stored::Free;
        if let [only] = &model.holders[..]
            && only.limit == 1
        {
            let Share {
                owner, grant, end, ..
            } = share(only);
            lock = Stored::Alone(Held {
                owner,
                grant,
                deadline: Deadline::At(end),
            });
        } else if let Some((first, rest)) = model.holders.split_first() {
            let mut shares = Shares::one(&share(first));
            for (count, holder) in (2..).zip(rest) {
                let share = share(holder);
                let change = ShareChange {
                    cut: None,
                    step: Step::Put(share),
                    count,
                    latest_end: shares.latest_end().max(share.end),
                };
                assert_eq!(change.apply(Some(&mut shares)), Ok(None));
            }
            let expiry = Deadline::At(shares.latest_end());
            lock = Stored::Shared(shares, expiry);
        }
        Self {
            replica: lock.clone(),
            lock,
            clock: TokenClock::after(Token::new(model.seen)),
            now: UnixTime::from_micros(model.now),
            max_holders: model.max_holders,
            queues: Queues::new(),
            numbers: BTreeMap::new(),
            joined: 0,
            told: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> UnixTime {
        self.now
    }

    pub(super) fn seen(&self) -> u64 {
        self.clock.last().map_or(0, Token::number)
    }

    pub(super) fn apply(&mut self, event: Event) {
        match event {
            Event::Clock(now) => self.now = UnixTime::from_micros(now),
            Event::MaxHolders(count) => self.max_holders = count,
            Event::Leave(n) => {
                let id = self.queues.iter(0, KEY).nth(n).unwrap().0;
                self.queues.remove(id);
            }
            Event::Seen(token) => self.clock.observe(Token::new(token).unwrap()),
            _ => {}
        }
        self.lock.apply(event, self.now);
        self.replica.apply(event, self.now);
    }

    pub(super) fn tick(&mut self) {
        self.expire();
        self.serve(None);
    }

    fn expire(&mut self) {
        let transition = self
            .lock
            .holders()
            .map_or(Transition::Keep, |holders| holders.expire(self.now));
        self.commit(transition);
    }

    /// Changes the lock, and the replica by the effect alone, twice.
    fn commit(&mut self, transition: Transition<'_>) {
        self.lock.change(transition);
        match transition {
            Transition::Keep => {}
            Transition::Free => self.replica.change(Transition::Free),
            Transition::Alone(held) => {
                let mut buffer = EffectBuffer::new();
                self.replicate(held.effect(&mut buffer).bytes());
            }
            Transition::Share(change) => {
                let mut buffer = ShareEffectBuffer::new();
                let seen = self.clock.last().unwrap();
                self.replicate(change.effect(seen, &mut buffer));
            }
        }
    }

    fn replicate(&mut self, effect: &[u8]) {
        for _ in 0..2 {
            self.replica
                .change(Transition::from_effect(effect).expect("an effect"));
        }
    }

    fn serve(&mut self, granted: Option<Owner<'static>>) {
        let mut granted = granted;
        loop {
            let holders = self.lock.holders();
            let next = next_in_line(
                &self.queues,
                (0, KEY),
                holders.as_ref(),
                granted,
                self.max_holders,
            );
            let Some(id) = next else { return };
            let (_, waiter) = self.queues.remove(id).unwrap();
            let request = Acquire {
                owner: owner(index(waiter.owner.as_owner())),
                lease: waiter.lease,
                holds: waiter.holds,
                token: None,
            };
            let reply = self.judge(&request, waiter.limit, false);
            if matches!(reply, Reply::Grant { .. }) {
                granted = Some(request.owner);
            }
            self.told.push((self.numbers[&id], reply));
        }
    }

    fn judge(&mut self, request: &Acquire<'static>, limit: Limit, in_line: bool) -> Reply {
        let room = Room {
            max_holders: self.max_holders,
            in_line,
        };
        let holders = self.lock.holders();
        let clock = &mut self.clock;
        let admitted = acquire(
            holders.as_ref(),
            request,
            limit,
            room,
            &rules(),
            self.now,
            clock,
        );
        match admitted {
            Ok(Admitted::New(granted, transition) | Admitted::Again(granted, transition)) => {
                self.commit(transition);
                reply(granted)
            }
            Ok(Admitted::Busy) => Reply::Nil,
            Err(refusal) => error(refusal),
        }
    }

    pub(super) fn call(&mut self, call: Call) -> Reply {
        self.tick();
        let in_line = !self.queues.is_empty();
        let owner = owner(call.owner);
        let bound = call.token.map(|token| Token::new(token).unwrap());
        let holders = self.lock.holders();
        let mut granted = None;
        let reply = match call.verb {
            Verb::Acquire {
                px,
                limit: number,
                holds,
                block,
            } => {
                let request = Acquire {
                    owner,
                    lease: px.and_then(Lease::from_millis),
                    holds: holds.map(count),
                    token: bound,
                };
                let mut reply = self.judge(&request, limit(number), in_line);
                if block && reply == Reply::Nil {
                    let waiter = Waiter {
                        owner: OwnerBuf::from(owner),
                        lease: request.lease,
                        holds: request.holds,
                        limit: limit(number),
                        client_id: 1,
                        since: Monotonic(0),
                        until: None,
                    };
                    let id = self.queues.join(0, KEY, waiter);
                    self.numbers.insert(id, self.joined);
                    self.joined += 1;
                    reply = Reply::Waits;
                }
                granted = matches!(reply, Reply::Grant { .. }).then_some(owner);
                reply
            }
            Verb::Release(amount) => {
                let request = Release {
                    owner,
                    amount: match amount {
                        Amount::One => ReleaseAmount::One,
                        Amount::All => ReleaseAmount::All,
                        Amount::Holds(n) => ReleaseAmount::DownTo(u32::try_from(n).unwrap()),
                    },
                    token: bound,
                };
                match release(holders.as_ref(), &request, self.now) {
                    Ok((left, transition)) => {
                        self.commit(transition);
                        Reply::Left(left.into())
                    }
                    Err(refusal) => error(refusal),
                }
            }
            Verb::Renew {
                px,
                limit: number,
                raise,
            } => {
                let lease = px.and_then(Lease::from_millis);
                let request = match raise {
                    None => Renew::new(owner, lease, bound),
                    Some(raise) => {
                        Renew::raise(owner, lease, bound.unwrap(), Token::new(raise).unwrap())
                            .unwrap()
                    }
                };
                let limit = number.map(limit);
                let clock = &mut self.clock;
                match renew(holders.as_ref(), &request, limit, &rules(), self.now, clock) {
                    Ok((granted, transition)) => {
                        self.commit(transition);
                        super::system::reply(granted)
                    }
                    Err(refusal) => error(refusal),
                }
            }
            Verb::Fence => match fence(holders.as_ref(), bound.unwrap(), self.now) {
                Ok(()) => Reply::Ok,
                Err(refusal) => error(refusal),
            },
        };
        self.serve(granted);
        reply
    }
}

fn rules() -> Rules {
    Rules {
        default_lease: Lease::from_millis(DEFAULT_LEASE).unwrap(),
        max_token_lead_ms: MAX_LEAD,
    }
}

fn reply(granted: Granted) -> Reply {
    Reply::Grant {
        token: granted.grant.token.number(),
        holds: granted.grant.holds.number().into(),
        lease: granted.grant.lease.millis(),
        limit: granted.limit.number().into(),
    }
}

fn error(refusal: Refusal) -> Reply {
    Reply::Error(match refusal {
        Refusal::NotHeld | Refusal::HoldsLost => "NOTHELD",
        Refusal::NotOwner => "NOTOWNER",
        Refusal::Fenced => "FENCED",
        Refusal::NotAlone => "NOTALONE",
        Refusal::Ahead => "AHEAD",
        Refusal::TooManyHolds => FULL,
        Refusal::TokensUsedUp => USED_UP,
        Refusal::SeveralHolds => SEVERAL,
        Refusal::NotRaisable => NOT_RAISABLE,
    })
}

fn share(holder: &Holder) -> Share<'static> {
    Share {
        owner: owner(holder.owner),
        grant: Grant {
            token: Token::new(holder.token).unwrap(),
            holds: count(holder.holds),
            lease: Lease::from_millis(holder.lease).unwrap(),
        },
        limit: limit(holder.limit),
        end: holder.end.unwrap(),
    }
}

fn count(number: u64) -> Holds {
    Holds::new(u32::try_from(number).unwrap()).unwrap()
}

fn limit(number: u64) -> Limit {
    Limit::new(u32::try_from(number).unwrap()).unwrap()
}
