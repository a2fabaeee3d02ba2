//! The effect of an action.

use crate::action::{Action, At, Reply};
use crate::normal::normal;
use crate::server::{acquired, freed, raised};
use crate::setting::{Leases, Memory, Passed, Setting, Weakening};
use crate::state::{Phase, State, Token, owner, seen};

/// The state after an action, without what no longer matters. Tokens stay as they are.
pub(crate) fn step(setting: &Setting, state: &State, action: Action) -> State {
    let mut next = state.clone();
    next.seen = 0;
    match action {
        Action::Acquire { at, time, reply } => acquire(setting, &mut next, at, time, reply),
        Action::Raise { at, heard } => raise(setting, &mut next, at, heard),
        Action::Return { attempt } => come_back(setting, &mut next, attempt),
        Action::Write { attempt } => write(&mut next, attempt),
        Action::LeaseEnds { server } => lease_ends(setting, &mut next, server),
        Action::LateRelease { at } => freed(&mut next.servers[at.server]),
        Action::Crash { server } => crash(setting, &mut next, server),
    }
    normal(setting, &mut next);
    next
}

fn acquire(setting: &Setting, state: &mut State, at: At, time: Token, reply: Reply) {
    let At { server, attempt } = at;
    if state.attempts[attempt].phase == Phase::NotBegun {
        begin(setting, state, attempt);
    }
    let there = &mut state.servers[server];
    let was_free = there.owner == owner::FREE;
    let granted = acquired(there, owner::attempt(setting.owner_of(attempt)), time);
    there.answered |= 1 << attempt;
    let Some(token) = granted else { return };
    if was_free && setting.passes(Passed::Granted) {
        there.passed = there.passed.max(token);
    }
    if reply == Reply::Lost {
        count_unheard(setting, state);
        return;
    }
    there.heard[attempt] = token;
    if let Reply::Enough(token) = reply {
        let this = &mut state.attempts[attempt];
        this.phase = Phase::Raising;
        this.token = token;
        if setting.is(Weakening::NoRaise) {
            for server in &mut state.servers {
                server.acknowledged |= u8::from(server.heard[attempt] != 0) << attempt;
            }
        }
    }
}

/// An attempt begins; so the one before is over, whatever became of it.
fn begin(setting: &Setting, state: &mut State, attempt: usize) {
    if !attempt.is_multiple_of(setting.attempts) {
        let before = &mut state.attempts[attempt - 1];
        before.phase = match before.phase {
            Phase::Held | Phase::Past => Phase::Past,
            Phase::Asking => {
                for server in &mut state.servers {
                    server.heard[attempt - 1] = 0;
                }
                Phase::Over
            }
            _ => Phase::Over,
        };
    }
    state.attempts[attempt].phase = Phase::Asking;
    state.attempts[attempt].before = state.highest;
}

fn raise(setting: &Setting, state: &mut State, at: At, heard: bool) {
    let At { server, attempt } = at;
    let there = &mut state.servers[server];
    let this = &state.attempts[attempt];
    let last = there.last;
    // Of a grant that is gone, the token raised to is all that can still fit.
    let token = there.heard[attempt].min(there.token);
    let by = owner::attempt(setting.owner_of(attempt));
    let mut acknowledges = raised(there, by, token, this.token);
    if setting.is(Weakening::RaiseLeavesClock) {
        there.last = last;
    }
    if !acknowledges && setting.low_raise_counts() && token > this.token {
        there.renewed = true;
        acknowledges = true;
    }
    if !heard {
        count_unheard(setting, state);
    } else if acknowledges {
        there.acknowledged |= 1 << attempt;
        if setting.passes(Passed::Raised) {
            there.passed = there.passed.max(this.token);
        }
    }
}

fn count_unheard(setting: &Setting, state: &mut State) {
    if setting.unheard.is_some() {
        state.unheard += 1;
    }
}

fn come_back(setting: &Setting, state: &mut State, attempt: usize) {
    let this = state.attempts[attempt];
    let others = |phases: &[Phase]| {
        state.attempts.iter().enumerate().any(|(number, other)| {
            number != attempt && phases.contains(&other.phase) && other.token == this.token
        })
    };
    state.seen |= seen::LOCKED;
    if this.token <= this.before {
        state.seen |= seen::NOT_HIGHER;
    } else if this.token < state.highest {
        state.seen |= seen::LOWER_LATER;
    }
    if this.token == state.highest || others(&[Phase::Held, Phase::Past]) {
        state.seen |= seen::SAME_TOKEN;
    }
    let alone = state.highest == this.before;
    for (number, other) in state.attempts.iter_mut().enumerate() {
        if number != attempt && other.phase == Phase::Held {
            match setting.leases {
                Leases::AfterTrust => state.seen |= seen::OVERLAP,
                Leases::AnyMoment => other.phase = Phase::Past,
            }
        }
    }
    state.attempts[attempt].phase = if setting.leases == Leases::AfterTrust || alone {
        Phase::Held
    } else {
        Phase::Past
    };
    state.highest = state.highest.max(this.token);
}

fn write(state: &mut State, attempt: usize) {
    let this = state.attempts[attempt];
    if this.token < state.register {
        state.seen |= seen::HOLDER_REFUSED;
        return;
    }
    state.register = this.token;
    let mut others = state.attempts.iter();
    if others
        .any(|other| matches!(other.phase, Phase::Held | Phase::Past) && other.token < this.token)
    {
        state.seen |= seen::STALE_REFUSED;
    }
}

/// A lease ends. Where leases are trusted, the attempt that had renewed it no longer counts on this server; a holder with
/// fewer than a majority has lost the lock.
fn lease_ends(setting: &Setting, state: &mut State, server: usize) {
    let there = &mut state.servers[server];
    let by = there.owner;
    let is_told = setting.leases == Leases::AfterTrust && there.renewed;
    freed(there);
    if !is_told || setting.is(Weakening::LossIgnored) {
        return;
    }
    for attempt in 0..setting.all_attempts() {
        if by != owner::attempt(setting.owner_of(attempt)) {
            continue;
        }
        state.servers[server].acknowledged &= !(1 << attempt);
        if state.attempts[attempt].phase == Phase::Held
            && state.acknowledgements(attempt) < setting.quorum()
        {
            state.attempts[attempt].phase = Phase::Over;
        }
    }
}

fn crash(setting: &Setting, state: &mut State, server: usize) {
    let Memory::Lost { stays_away, .. } = setting.memory else {
        return;
    };
    let there = &mut state.servers[server];
    there.last = there.passed;
    if stays_away && there.owner != owner::FREE {
        there.away = true;
    } else {
        freed(there);
    }
}
