//! Leaves out of a state what cannot matter any more, so that states that differ in nothing else
//! are one.

use crate::server::freed;
use crate::setting::{Leases, Memory, Network, Setting, Weakening};
use crate::state::{Attempt, GONE, MOST_SERVERS, Phase, Server, State, owner};

pub(crate) fn normal(setting: &Setting, state: &mut State) {
    for attempt in 0..setting.all_attempts() {
        if cannot_come_back(setting, state, attempt) {
            state.attempts[attempt].phase = Phase::Over;
        }
        forget(setting, state, attempt);
    }
    for server in &mut state.servers[..setting.servers] {
        forget_owner(setting, &state.attempts, server);
    }
    if setting.unheard.is_some() {
        free_without_loss(setting, state);
    }
    settle(setting, state);
}

/// Frees servers, and sets their clocks back, where that makes nothing impossible.
///
/// The lease may end now, or the memory be lost, so the state without the grant is one of those that
/// follow; and it can do all that the state with the grant can: nobody who can still return will
/// hear of this grant, and a clock that is lower can give every token that one that is higher can.
/// So to look at the former is enough.
fn free_without_loss(setting: &Setting, state: &mut State) {
    let exhausted = exhausted(setting, state);
    for attempt in 0..setting.all_attempts() {
        let this = &mut state.attempts[attempt];
        if exhausted && matches!(this.phase, Phase::Past | Phase::Over) {
            for server in &mut state.servers {
                server.heard[attempt] = 0;
            }
            if this.phase == Phase::Over {
                this.token = 0;
            }
        }
    }
    if setting.is(Weakening::OwnersReused) {
        return;
    }
    for server in &mut state.servers[..setting.servers] {
        if server.owner > owner::OVER {
            let attempt = usize::from(server.owner) - 2;
            let heard = !matches!(server.heard[attempt], 0 | GONE);
            let needed = match state.attempts[attempt].phase {
                Phase::NotBegun | Phase::Asking => true,
                Phase::Raising => !server.has_acknowledged(attempt) || server.renewed,
                // A late raise may be acknowledged, and make the holder hold for longer.
                Phase::Held => {
                    server.renewed
                        || (heard && (!exhausted || setting.leases == Leases::AfterTrust))
                }
                Phase::Past | Phase::Over => heard && !exhausted,
            };
            if !needed {
                freed(server);
            }
        } else if server.owner == owner::OVER {
            freed(server);
        }
        if server.owner == owner::FREE && setting.memory != Memory::Kept {
            server.last = server.passed;
        }
    }
}

/// The lowest value of a server's clock.
fn floor(setting: &Setting, server: &Server) -> u8 {
    match setting.memory {
        Memory::Kept => server.last,
        Memory::Lost { .. } => server.passed,
    }
}

/// May no request be taken unheard any more?
fn exhausted(setting: &Setting, state: &State) -> bool {
    setting.unheard == Some(state.unheard)
}

/// Is it certain that the attempt never gets enough acknowledgements?
fn cannot_come_back(setting: &Setting, state: &State, attempt: usize) -> bool {
    if setting.network == Network::Reliable
        || setting.is(Weakening::OwnersReused)
        || setting.is(Weakening::NoRaise)
        || setting.low_raise_counts()
    {
        return false;
    }
    let Attempt { phase, token, .. } = state.attempts[attempt];
    let regrants = !exhausted(setting, state);
    let raise = match phase {
        // T is not known yet, and may be any.
        Phase::Asking if !regrants => GONE,
        Phase::Raising => token,
        _ => return false,
    };
    let hopeful = |server: &&Server| {
        let heard = server.heard[attempt];
        // A doubled ACQUIRE may be granted anew, with no more than the token to raise to.
        let may_grant = floor(setting, server) < raise && (regrants || heard == 0);
        let holds = server.owner == owner::attempt(attempt) && !server.away;
        let fits = match heard {
            0 => server.token <= raise,
            heard => server.token == heard || server.token == raise,
        };
        server.has_acknowledged(attempt) || may_grant || (holds && fits)
    };
    let servers = &state.servers[..setting.servers];
    servers.iter().filter(hopeful).count() < setting.quorum()
}

/// Forgets grants that are gone, and what an attempt that has come to an end knew.
fn forget(setting: &Setting, state: &mut State, attempt: usize) {
    let exhausted = exhausted(setting, state);
    let this = &mut state.attempts[attempt];
    if matches!(this.phase, Phase::NotBegun | Phase::Asking) {
        return;
    }
    let raising = this.phase == Phase::Raising;
    let counts = raising || (this.phase == Phase::Held && setting.leases == Leases::AfterTrust);
    let mut may_arrive = false;
    for server in &mut state.servers[..setting.servers] {
        let heard = server.heard[attempt];
        if heard != 0 && heard != GONE {
            let gone = !server.grant_is_known(setting, attempt)
                && (exhausted || floor(setting, server) >= heard);
            if gone || setting.is(Weakening::NoRaise) {
                server.heard[attempt] = if raising { GONE } else { 0 };
            } else {
                may_arrive = true;
            }
        }
        if !counts {
            server.acknowledged &= !(1 << attempt);
        }
        if !raising && server.heard[attempt] == GONE {
            server.heard[attempt] = 0;
        }
    }
    if raising {
        return;
    }
    this.before = 0;
    let is_of_no_use = match this.phase {
        Phase::Held => setting.leases == Leases::AnyMoment,
        phase => phase == Phase::Past,
    };
    if is_of_no_use && !setting.register {
        this.phase = Phase::Over;
    }
    if this.phase == Phase::Over && !may_arrive {
        this.token = 0;
    }
}

/// Forgets whose a grant is when that makes no difference, and that round 2 has been there.
fn forget_owner(setting: &Setting, attempts: &[Attempt], server: &mut Server) {
    if setting.leases == Leases::AnyMoment {
        server.renewed = false;
    }
    if server.owner <= owner::OVER || setting.is(Weakening::OwnersReused) {
        return;
    }
    let attempt = usize::from(server.owner) - 2;
    let live = match attempts[attempt].phase {
        Phase::NotBegun | Phase::Asking | Phase::Raising => true,
        Phase::Held => setting.leases == Leases::AfterTrust,
        Phase::Past | Phase::Over => false,
    };
    if !live {
        server.renewed = false;
        if matches!(server.heard[attempt], 0 | GONE) {
            server.owner = owner::OVER;
        }
    }
}

/// When nobody can return any more, only the register is left to watch.
fn settle(setting: &Setting, state: &mut State) {
    let attempts = &mut state.attempts[..setting.all_attempts()];
    let mut phases = attempts.iter().map(|attempt| attempt.phase);
    let is_open = |phase| matches!(phase, Phase::NotBegun | Phase::Asking | Phase::Raising);
    if phases.any(is_open) || setting.network == Network::Reliable {
        return;
    }
    state.servers = [Server::default(); MOST_SERVERS];
    state.highest = 0;
    state.unheard = 0;
    for attempt in attempts {
        if !setting.register || attempt.phase == Phase::Over {
            attempt.phase = Phase::Over;
            attempt.token = 0;
        }
    }
}
