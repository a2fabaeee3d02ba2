//! Calls in few words. Times are in milliseconds.

use history::{
    Acquire, Action, Down, Granted, History, Holder, InSession, Kind, Limit, Mode, Outcome, Poll,
    Refusal, Register, Renew, Renewed, Report, Sighting, Span, Trust, Write, Written, check,
};

/// The lease that calls ask for unless they say otherwise.
pub(crate) const LEASE: u64 = 1000;

/// A call, described word by word.
#[derive(Clone)]
pub(crate) struct Call(history::Call);

/// A history with what is wrong in it, told record by record.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    mode: Mode,
    history: History,
    pub(crate) kinds: Vec<Kind>,
}

/// A call by this owner, or by nobody, with no outcome yet.
fn call(owner: &str, action: Action) -> Call {
    let client = owner.bytes().map(u32::from).sum();
    Call(history::Call::sent(client, "lock", owner, action, 0)).at(0, 0)
}

pub(crate) fn acquire(owner: &str) -> Call {
    let asks = Acquire {
        lease: Some(LEASE),
        ..Acquire::default()
    };
    call(owner, Action::Acquire(asks))
}

pub(crate) fn release(owner: &str) -> Call {
    let action = Action::Release {
        down: Down::One,
        token: None,
    };
    call(owner, action)
}

pub(crate) fn renew(owner: &str) -> Call {
    let asks = Renew {
        lease: Some(LEASE),
        ..Renew::default()
    };
    call(owner, Action::Renew(asks))
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

impl Call {
    pub(crate) fn at(mut self, sent: u64, ended: u64) -> Self {
        (self.0.sent, self.0.ended) = (sent * 1000, ended * 1000);
        self
    }

    /// Of another lock.
    pub(crate) fn of(mut self, key: &str) -> Self {
        key.clone_into(&mut self.0.key);
        self
    }

    pub(crate) fn by_client(mut self, number: u32) -> Self {
        self.0.client = number;
        self
    }

    pub(crate) fn px(mut self, ms: u64) -> Self {
        if let Action::Acquire(Acquire { lease, .. }) | Action::Renew(Renew { lease, .. }) =
            &mut self.0.action
        {
            *lease = Some(ms);
        }
        self
    }

    pub(crate) fn block(mut self) -> Self {
        if let Action::Acquire(asks) = &mut self.0.action {
            asks.block = true;
        }
        self
    }

    pub(crate) fn limit(mut self, holders: u32) -> Self {
        if let Action::Acquire(Acquire { limit, .. }) | Action::Renew(Renew { limit, .. }) =
            &mut self.0.action
        {
            *limit = Some(Limit::new(holders));
        }
        self
    }

    pub(crate) fn shared(self) -> Self {
        self.limit(0)
    }

    pub(crate) fn holds(mut self, count: u32) -> Self {
        match &mut self.0.action {
            Action::Acquire(asks) => asks.holds = Some(count),
            Action::Release { down, .. } => *down = Down::To(count),
            _ => {}
        }
        self
    }

    pub(crate) fn token(mut self, number: u64) -> Self {
        if let Action::Acquire(Acquire { token, .. })
        | Action::Release { token, .. }
        | Action::Renew(Renew { token, .. }) = &mut self.0.action
        {
            *token = Some(number);
        }
        self
    }

    pub(crate) fn all(mut self) -> Self {
        if let Action::Release { down, .. } = &mut self.0.action {
            *down = Down::All;
        }
        self
    }

    pub(crate) fn raise(mut self, number: u64) -> Self {
        if let Action::Renew(asks) = &mut self.0.action {
            asks.raise = Some(number);
        }
        self
    }

    pub(crate) fn is(mut self, outcome: Outcome) -> Self {
        self.0.outcome = outcome;
        self
    }

    /// A grant to the caller, with the lease that it asked for.
    pub(crate) fn granted(self, token: u64, holds: u32) -> Self {
        let owner = self.0.owner.clone();
        self.shows(&owner, token, holds)
    }

    /// A grant with the lease of a call that asks for none.
    pub(crate) fn shows(self, owner: &str, token: u64, holds: u32) -> Self {
        let (Action::Acquire(Acquire { limit, lease, .. })
        | Action::Renew(Renew { limit, lease, .. })) = self.0.action
        else {
            let holder = holder(owner, token, holds, Limit::ONE);
            return self.is(Outcome::Holders(vec![holder]));
        };
        self.is(Outcome::Grant(Granted {
            token,
            owner: owner.to_owned(),
            holds,
            lease: lease.unwrap_or(LEASE),
            limit,
        }))
    }

    /// One more holder of this limit is shown.
    pub(crate) fn and(mut self, owner: &str, token: u64, limit: u32) -> Self {
        let holder = holder(owner, token, 1, Limit::new(limit));
        match &mut self.0.outcome {
            Outcome::Holders(holders) => holders.push(holder),
            outcome => *outcome = Outcome::Holders(vec![holder]),
        }
        self
    }

    pub(crate) fn nil(self) -> Self {
        self.is(Outcome::Nil)
    }

    /// It is done.
    pub(crate) fn done(self) -> Self {
        self.is(Outcome::Done)
    }

    /// A release that leaves so many holds.
    pub(crate) fn left(self, holds: u32) -> Self {
        self.is(Outcome::Left(holds))
    }

    pub(crate) fn refused(self, refusal: Refusal) -> Self {
        self.is(Outcome::Refused(refusal))
    }

    /// It names this session.
    pub(crate) fn session(mut self, id: u64) -> Self {
        self.0.session = Some(InSession { id, queued: false });
        self
    }

    /// It waits in line in this session, and an event told how it ended.
    pub(crate) fn queue(self, id: u64) -> Self {
        let mut call = self.block().holds(1);
        call.0.session = Some(InSession { id, queued: true });
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

/// An example of these errors, judged strictly.
pub(crate) fn wrong<const COUNT: usize>(name: &'static str, kinds: [Kind; COUNT]) -> Example {
    Example {
        name,
        mode: Mode::Strict,
        history: History::default(),
        kinds: kinds.to_vec(),
    }
}

/// An example without an error.
pub(crate) fn right(name: &'static str) -> Example {
    wrong(name, [])
}

impl Example {
    pub(crate) fn check(&self) -> Report {
        check(&self.history, self.mode)
    }

    pub(crate) fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    pub(crate) fn calls(mut self, calls: impl IntoIterator<Item = Call>) -> Self {
        self.history
            .calls
            .extend(calls.into_iter().map(|call| call.0));
        self
    }

    pub(crate) fn writes(
        mut self,
        register: Register,
        token: u64,
        sent: u64,
        written: Written,
    ) -> Self {
        self.history.writes.push(Write {
            register,
            key: "lock".to_owned(),
            token,
            sent: sent * 1000,
            ended: sent * 1000 + 1000,
            written,
        });
        self
    }

    pub(crate) fn trusts(mut self, token: u64, from: u64, to: u64) -> Self {
        self.history.trusts.push(Trust {
            key: "lock".to_owned(),
            token,
            span: span(from, to),
        });
        self
    }

    pub(crate) fn sees(mut self, at: u64, clients: &[u32]) -> Self {
        self.history.sightings.push(Sighting {
            key: "lock".to_owned(),
            sent: at * 1000,
            ended: at * 1000 + 1000,
            clients: clients.to_vec(),
        });
        self
    }

    /// From this moment to that one a session may have renewed the owner's grant.
    pub(crate) fn renews(mut self, owner: &str, from: u64, to: u64) -> Self {
        self.history.renewed.push(Renewed {
            key: "lock".to_owned(),
            owner: owner.to_owned(),
            span: span(from, to),
        });
        self
    }

    /// A POLL of session 1 on this connection is answered with `sure-ms`.
    pub(crate) fn polls(mut self, connection: u64, sent: u64, ended: u64, sure: i64) -> Self {
        self.history.polls.push(Poll {
            session: 1,
            connection,
            sent: sent * 1000,
            ended: ended * 1000,
            sure: Some(sure),
            gone: Vec::new(),
        });
        self
    }

    /// The last reply told that this grant is lost or in another session.
    pub(crate) fn gone(mut self, token: u64) -> Self {
        let last = self.history.polls.last_mut().expect("a POLL");
        last.gone.push(("lock".to_owned(), token));
        self
    }

    pub(crate) fn loses(mut self, from: u64, to: u64) -> Self {
        self.history.facts.losses.push(span(from, to));
        self
    }

    pub(crate) fn evicts(mut self, from: u64, to: u64) -> Self {
        self.history.facts.evictions.push(span(from, to));
        self
    }

    pub(crate) fn steps(mut self, at: u64, ahead_ms: i64) -> Self {
        self.history.facts.steps.push(history::ClockStep {
            at: span(at, at + 1),
            ahead: ahead_ms * 1000,
        });
        self
    }
}

fn span(from: u64, to: u64) -> Span {
    Span::new(from * 1000, to * 1000)
}
