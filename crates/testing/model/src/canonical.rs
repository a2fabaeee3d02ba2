//! One state for all that differ only in names or in the distance of tokens.

use crate::setting::Setting;
use crate::state::{MOST_ATTEMPTS, State, owner};

/// Tokens are below this before they are ranked.
pub(crate) const TOKENS: u8 = 64;

/// Makes tokens 1, 2, 3, … in their order, and of all ways to number clients and servers takes the
/// least.
pub(crate) fn canonical(setting: &Setting, mut state: State) -> State {
    rank_tokens(&mut state);
    let mut least: Option<State> = None;
    for order in orders(setting.clients) {
        let mut named = renamed(setting, &state, order);
        named.servers[..setting.servers].sort_unstable();
        if least.as_ref().is_none_or(|least| named < *least) {
            least = Some(named);
        }
    }
    least.unwrap_or(state)
}

/// The highest token of a state whose tokens are ranked.
pub(crate) fn highest_rank(state: &State) -> u8 {
    let mut highest = 0;
    state.clone().map_tokens(|token| {
        highest = highest.max(token);
        token
    });
    highest
}

fn rank_tokens(state: &mut State) {
    let mut used = 0_u64;
    state.map_tokens(|token| {
        assert!(token < TOKENS, "a token too high to rank");
        used |= 1 << token;
        token
    });
    state.map_tokens(|token| {
        let below = used & ((1 << token) - 1);
        u8::try_from(below.count_ones()).expect("fewer than 64") + 1
    });
}

/// The orders in which clients can be named.
fn orders(clients: usize) -> &'static [[usize; 3]] {
    match clients {
        1 => &[[0, 1, 2]],
        2 => &[[0, 1, 2], [1, 0, 2]],
        _ => &[
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ],
    }
}

fn renamed(setting: &Setting, state: &State, order: &[usize; 3]) -> State {
    if order[..setting.clients].is_sorted() {
        return state.clone();
    }
    let mut name = [0; MOST_ATTEMPTS];
    for (attempt, name) in name.iter_mut().enumerate().take(setting.all_attempts()) {
        *name = order[attempt / setting.attempts] * setting.attempts + attempt % setting.attempts;
    }
    let mut named = state.clone();
    for (attempt, &name) in name.iter().enumerate().take(setting.all_attempts()) {
        named.attempts[name] = state.attempts[attempt];
    }
    let servers = state.servers[..setting.servers].iter();
    for (server, named) in servers.zip(&mut named.servers) {
        (named.acknowledged, named.answered) = (0, 0);
        for (attempt, &name) in name.iter().enumerate().take(setting.all_attempts()) {
            named.heard[name] = server.heard[attempt];
            named.acknowledged |= (server.acknowledged >> attempt & 1) << name;
            named.answered |= (server.answered >> attempt & 1) << name;
        }
        if server.owner > owner::OVER {
            named.owner = owner::attempt(name[usize::from(server.owner) - 2]);
        }
    }
    named
}
