//! Calls in few words. Times are in milliseconds.

use history::{
    Action, Call, Down, History, Holder, InSession, Limit, Outcome, Poll, Refusal, Register,
    Renewed, Sighting, Span, Trust, Write, Written,
};

/// The lease that calls ask for unless they say otherwise.
pub(crate) const LEASE: u64 = 1000;

/// A call by this owner, or by nobody, with no outcome yet.
fn call(owner: &str, action: Action) -> Call {
    Call {
        client: owner.bytes().map(u32::from).sum(),
        key: "lock".to_owned(),
        owner: owner.to_owned(),
        action,
        sent: 0,
        ended: 0,
        outcome: Outcome::Lost,
        session: None,
    }
}

pub(crate) fn acquire(owner: &str) -> Call {
    let action = Action::Acquire {
        limit: None,
        lease: Some(LEASE),
        block: false,
        holds: None,
        token: None,
    };
    call(owner, action)
}

pub(crate) fn release(owner: &str) -> Call {
    let action = Action::Release {
        down: Down::One,
        token: None,
    };
    call(owner, action)
}

pub(crate) fn renew(owner: &str) -> Call {
    let action = Action::Renew {
        limit: None,
        lease: Some(LEASE),
        token: None,
        raise: None,
    };
    call(owner, action)
}

pub(crate) fn fence(token: u64) -> Call {
    call("", Action::Fence(token))
}

pub(crate) fn look() -> Call {
    call("", Action::Look)
}

pub(crate) fn remove() -> Call {
    call("", Action::Remove)
}

/// The description of a call, word by word.
pub(crate) trait Words: Sized {
    fn at(self, sent: u64, ended: u64) -> Self;
    fn by_client(self, client: u32) -> Self;
    /// Of another lock.
    fn of(self, key: &str) -> Self;
    fn px(self, ms: u64) -> Self;
    fn block(self) -> Self;
    fn limit(self, holders: u32) -> Self;
    fn shared(self) -> Self {
        self.limit(0)
    }
    fn holds(self, count: u32) -> Self;
    fn token(self, number: u64) -> Self;
    fn all(self) -> Self;
    fn raise(self, number: u64) -> Self;
    fn is(self, outcome: Outcome) -> Self;
    /// A grant to the caller, with the lease that it asked for.
    fn granted(self, token: u64, holds: u32) -> Self;
    /// A grant with the lease of a call that asks for none.
    fn shows(self, owner: &str, token: u64, holds: u32) -> Self;
    /// One more holder of this limit is shown.
    fn and(self, owner: &str, token: u64, limit: u32) -> Self;
    fn refused(self, refusal: Refusal) -> Self;
    /// It names this session.
    fn session(self, id: u64) -> Self;
    /// It waits in line in this session, and an event told how it ended.
    fn queue(self, id: u64) -> Self;
}

impl Words for Call {
    fn at(mut self, sent: u64, ended: u64) -> Self {
        (self.sent, self.ended) = (sent * 1000, ended * 1000);
        self
    }

    fn of(mut self, key: &str) -> Self {
        key.clone_into(&mut self.key);
        self
    }

    fn by_client(mut self, number: u32) -> Self {
        self.client = number;
        self
    }

    fn px(mut self, ms: u64) -> Self {
        if let Action::Acquire { lease, .. } | Action::Renew { lease, .. } = &mut self.action {
            *lease = Some(ms);
        }
        self
    }

    fn block(mut self) -> Self {
        if let Action::Acquire { block, .. } = &mut self.action {
            *block = true;
        }
        self
    }

    fn limit(mut self, holders: u32) -> Self {
        if let Action::Acquire { limit, .. } | Action::Renew { limit, .. } = &mut self.action {
            *limit = Some(Limit::new(holders));
        }
        self
    }

    fn holds(mut self, count: u32) -> Self {
        match &mut self.action {
            Action::Acquire { holds, .. } => *holds = Some(count),
            Action::Release { down, .. } => *down = Down::To(count),
            _ => {}
        }
        self
    }

    fn token(mut self, number: u64) -> Self {
        if let Action::Acquire { token, .. }
        | Action::Release { token, .. }
        | Action::Renew { token, .. } = &mut self.action
        {
            *token = Some(number);
        }
        self
    }

    fn all(mut self) -> Self {
        if let Action::Release { down, .. } = &mut self.action {
            *down = Down::All;
        }
        self
    }

    fn raise(mut self, number: u64) -> Self {
        if let Action::Renew { raise, .. } = &mut self.action {
            *raise = Some(number);
        }
        self
    }

    fn is(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }

    fn granted(self, token: u64, holds: u32) -> Self {
        let owner = self.owner.clone();
        self.shows(&owner, token, holds)
    }

    fn shows(self, owner: &str, token: u64, holds: u32) -> Self {
        let (Action::Acquire { limit, lease, .. } | Action::Renew { limit, lease, .. }) =
            self.action
        else {
            let holder = holder(owner, token, holds, Limit::ONE);
            return self.is(Outcome::Holders(vec![holder]));
        };
        self.is(Outcome::Grant {
            token,
            owner: owner.to_owned(),
            holds,
            lease: lease.unwrap_or(LEASE),
            limit,
        })
    }

    fn and(mut self, owner: &str, token: u64, limit: u32) -> Self {
        let holder = holder(owner, token, 1, Limit::new(limit));
        match &mut self.outcome {
            Outcome::Holders(holders) => holders.push(holder),
            outcome => *outcome = Outcome::Holders(vec![holder]),
        }
        self
    }

    fn refused(self, refusal: Refusal) -> Self {
        self.is(Outcome::Refused(refusal))
    }

    fn session(mut self, id: u64) -> Self {
        self.session = Some(InSession { id, queued: false });
        self
    }

    fn queue(self, id: u64) -> Self {
        let mut call = self.block().holds(1);
        call.session = Some(InSession { id, queued: true });
        call
    }
}

fn holder(owner: &str, token: u64, holds: u32, limit: Limit) -> Holder {
    Holder {
        owner: owner.to_owned(),
        token,
        holds,
        lease: LEASE,
        limit,
    }
}

pub(crate) fn calls<const COUNT: usize>(calls: [Call; COUNT]) -> History {
    History {
        calls: Vec::from(calls),
        ..History::default()
    }
}

/// The other records.
pub(crate) trait Besides: Sized {
    fn writes(self, register: Register, token: u64, sent: u64, written: Written) -> Self;
    fn trusts(self, token: u64, from: u64, to: u64) -> Self;
    fn sees(self, at: u64, clients: &[u32]) -> Self;
    /// From this moment to that one a session may have renewed the owner's grant.
    fn renews(self, owner: &str, from: u64, to: u64) -> Self;
    /// A POLL of session 1 on this connection is answered with `sure-ms`.
    fn polls(self, connection: u64, sent: u64, ended: u64, sure: i64) -> Self;
    /// The last reply told that this grant is lost or in another session.
    fn gone(self, token: u64) -> Self;
    fn loses(self, from: u64, to: u64) -> Self;
    fn evicts(self, from: u64, to: u64) -> Self;
    fn steps(self, at: u64, ahead_ms: i64) -> Self;
}

impl Besides for History {
    fn writes(mut self, register: Register, token: u64, sent: u64, written: Written) -> Self {
        self.writes.push(Write {
            register,
            key: "lock".to_owned(),
            token,
            sent: sent * 1000,
            ended: sent * 1000 + 1000,
            written,
        });
        self
    }

    fn trusts(mut self, token: u64, from: u64, to: u64) -> Self {
        self.trusts.push(Trust {
            key: "lock".to_owned(),
            token,
            span: span(from, to),
        });
        self
    }

    fn sees(mut self, at: u64, clients: &[u32]) -> Self {
        self.sightings.push(Sighting {
            key: "lock".to_owned(),
            sent: at * 1000,
            ended: at * 1000 + 1000,
            clients: clients.to_vec(),
        });
        self
    }

    fn renews(mut self, owner: &str, from: u64, to: u64) -> Self {
        self.renewed.push(Renewed {
            key: "lock".to_owned(),
            owner: owner.to_owned(),
            span: span(from, to),
        });
        self
    }

    fn polls(mut self, connection: u64, sent: u64, ended: u64, sure: i64) -> Self {
        self.polls.push(Poll {
            session: 1,
            connection,
            sent: sent * 1000,
            ended: ended * 1000,
            sure: Some(sure),
            gone: Vec::new(),
        });
        self
    }

    fn gone(mut self, token: u64) -> Self {
        let last = self.polls.last_mut().expect("a POLL");
        last.gone.push(("lock".to_owned(), token));
        self
    }

    fn loses(mut self, from: u64, to: u64) -> Self {
        self.facts.losses.push(span(from, to));
        self
    }

    fn evicts(mut self, from: u64, to: u64) -> Self {
        self.facts.evictions.push(span(from, to));
        self
    }

    fn steps(mut self, at: u64, ahead_ms: i64) -> Self {
        self.facts.steps.push(history::ClockStep {
            at: span(at, at + 1),
            ahead: ahead_ms * 1000,
        });
        self
    }
}

fn span(from: u64, to: u64) -> Span {
    Span {
        from: from * 1000,
        to: to * 1000,
    }
}
