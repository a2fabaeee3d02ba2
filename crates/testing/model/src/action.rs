//! The possible actions, and their conditions.

use crate::setting::{Leases, Memory, Network, Setting, Weakening};
use crate::state::{GONE, Phase, Server, State, Token, owner};

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// An ACQUIRE of round 1 arrives, sent just now or long ago. The attempt begins with its first.
    Acquire {
        at: At,
        /// The server's clock, above its last token: so the token of a new grant. 0 where none is
        /// made.
        time: Token,
        reply: Reply,
    },
    /// A RENEW … RAISE of round 2 arrives.
    Raise {
        at: At,
        /// Does the acknowledgement arrive?
        heard: bool,
    },
    /// Enough servers have acknowledged: the attempt returns with the lock.
    Return { attempt: usize },
    /// A holder, or one who does not know that it no longer is, writes to the register.
    Write { attempt: usize },
    /// A lease ends, or the lock is released.
    LeaseEnds { server: usize },
    /// The RELEASE of an earlier attempt arrives, of the same owner as a later one.
    LateRelease { at: At },
    /// A server loses its memory.
    Crash { server: usize },
}

/// The server at which a message arrives, and the attempt that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) server: usize,
    pub(crate) attempt: usize,
}

/// The fate of a grant's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Lost,
    Heard,
    /// It is heard, and the client continues to round 2 with this token.
    Enough(Token),
}

/// Puts everything that can happen into `actions`. Clocks go up to `latest`.
pub(crate) fn possible(setting: &Setting, state: &State, latest: Token, actions: &mut Vec<Action>) {
    // To return later than it can makes only less of what follows begin after it.
    if setting.unheard.is_some()
        && let Some(attempt) =
            (0..setting.all_attempts()).find(|&it| may_return(setting, state, it))
    {
        actions.push(Action::Return { attempt });
        return;
    }
    let unreliable = setting.network == Network::Unreliable;
    let unheard = unreliable && setting.unheard.is_none_or(|most| state.unheard < most);
    for attempt in 0..setting.all_attempts() {
        for server in 0..setting.servers {
            if !state.servers[server].away {
                let at = At { server, attempt };
                acquires(setting, state, (latest, unheard), at, actions);
                raises(setting, state, unheard, at, actions);
            }
        }
        if may_return(setting, state, attempt) {
            actions.push(Action::Return { attempt });
        }
        let this = &state.attempts[attempt];
        let writes = match this.phase {
            Phase::Held => this.token != state.register,
            Phase::Past => this.token > state.register,
            _ => false,
        };
        if setting.register && writes {
            actions.push(Action::Write { attempt });
        }
    }
    for (server, there) in state.servers[..setting.servers].iter().enumerate() {
        if unreliable && there.owner != owner::FREE {
            actions.push(Action::LeaseEnds { server });
        }
        if matches!(setting.memory, Memory::Lost { .. }) && !there.away {
            actions.push(Action::Crash { server });
        }
        if setting.is(Weakening::OwnersReused) && setting.leases == Leases::AfterTrust {
            for attempt in 0..setting.all_attempts() {
                let over = matches!(state.attempts[attempt].phase, Phase::Past | Phase::Over);
                if over && there.owner == owner::attempt(setting.owner_of(attempt)) {
                    let at = At { server, attempt };
                    actions.push(Action::LateRelease { at });
                }
            }
        }
    }
}

fn acquires(
    setting: &Setting,
    state: &State,
    (latest, unheard): (Token, bool),
    at: At,
    actions: &mut Vec<Action>,
) {
    let At { server, attempt } = at;
    let there = &state.servers[server];
    let phase = state.attempts[attempt].phase;
    let first = attempt % setting.attempts == 0;
    if phase == Phase::NotBegun && !first && state.attempts[attempt - 1].phase == Phase::NotBegun {
        return;
    }
    let reliable = setting.network == Network::Reliable;
    if reliable && there.answered >> attempt & 1 == 1 {
        return;
    }
    let mut arrives = |time, reply| actions.push(Action::Acquire { at, time, reply });
    if there.owner == owner::FREE {
        for time in there.last + 1..=latest {
            if unheard {
                arrives(time, Reply::Lost);
            }
            replies(setting, state, at, time, |reply| arrives(time, reply));
        }
    } else if there.owner == owner::attempt(setting.owner_of(attempt)) {
        replies(setting, state, at, there.token, |reply| arrives(0, reply));
    } else if reliable {
        arrives(0, Reply::Lost);
    }
}

/// The possible fates of a reply with the grant `token`, other than being lost.
fn replies(setting: &Setting, state: &State, at: At, token: Token, mut reply: impl FnMut(Reply)) {
    let At { server, attempt } = at;
    let this = &state.attempts[attempt];
    let known = state.servers[server].heard[attempt];
    match this.phase {
        // Where a second grant replaces the first, it is as if there had been no first.
        Phase::NotBegun | Phase::Asking
            if known == 0 || (known != token && setting.unheard.is_none()) =>
        {
            let servers = state.servers[..setting.servers].iter();
            let mut grants: Vec<Token> = servers.map(|server| server.heard[attempt]).collect();
            grants[server] = token;
            grants.retain(|&token| token != 0);
            grants.sort_unstable();
            let enough = grants.len() >= setting.quorum();
            if !enough || setting.network == Network::Unreliable {
                reply(Reply::Heard);
            }
            if enough {
                // The highest of so many of them, whichever these are.
                let of = setting.token_of().min(grants.len());
                let mut highest = grants.split_off(of - 1);
                highest.dedup();
                for token in highest {
                    reply(Reply::Enough(token));
                }
            }
        }
        // A late grant takes part in round 2 where it can.
        Phase::Raising
            if known == 0
                && !setting.is(Weakening::NoRaise)
                && (token <= this.token || setting.low_raise_counts()) =>
        {
            reply(Reply::Heard);
        }
        _ if setting.network == Network::Reliable => reply(Reply::Lost),
        _ => {}
    }
}

fn raises(setting: &Setting, state: &State, unheard: bool, at: At, actions: &mut Vec<Action>) {
    let At { server, attempt } = at;
    let there = &state.servers[server];
    let this = &state.attempts[attempt];
    let sent = matches!(
        this.phase,
        Phase::Raising | Phase::Held | Phase::Past | Phase::Over
    ) && there.heard[attempt] != 0
        && !setting.is(Weakening::NoRaise);
    if !sent || there.owner != owner::attempt(setting.owner_of(attempt)) {
        return;
    }
    let fits = there.token == there.heard[attempt] || there.token == this.token;
    let acknowledged = there.has_acknowledged(attempt);
    // A late acknowledgement is one more server that a holder counts on.
    let counts = this.phase == Phase::Raising
        || (this.phase == Phase::Held && setting.leases == Leases::AfterTrust);
    if fits && counts && !acknowledged {
        actions.push(Action::Raise { at, heard: true });
    }
    let changes = there.token != this.token
        || there.last < this.token
        || (setting.leases == Leases::AfterTrust && !there.renewed);
    if fits && changes && unheard {
        actions.push(Action::Raise { at, heard: false });
    }
}

/// Have enough servers acknowledged the attempt's token?
fn may_return(setting: &Setting, state: &State, attempt: usize) -> bool {
    state.attempts[attempt].phase == Phase::Raising
        && state.acknowledgements(attempt) >= setting.quorum()
}

impl Server {
    /// Has the attempt heard that its token was taken?
    pub(crate) fn has_acknowledged(&self, attempt: usize) -> bool {
        self.acknowledged >> attempt & 1 == 1
    }

    /// Has the attempt heard of the grant that stands now?
    pub(crate) fn grant_is_known(&self, setting: &Setting, attempt: usize) -> bool {
        let heard = self.heard[attempt];
        heard != GONE
            && heard != 0
            && self.owner == owner::attempt(setting.owner_of(attempt))
            && self.token == heard
    }
}
