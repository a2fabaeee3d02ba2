//! A path of the search told with names and whole numbers.

use std::fmt::Write;

use crate::action::{Action, At, Reply, possible};
use crate::canonical::canonical;
use crate::setting::Setting;
use crate::state::{MOST_SERVERS, Server, State, Token, owner};
use crate::step::step;

/// More than the tokens of any trace that is short enough to read.
const LATEST: Token = 12;

/// The steps of a path, or none when whole numbers up to [`LATEST`] do not suffice for it.
///
/// The search gives tokens only an order, and names servers and clients anew in each state. So a
/// path is walked again with numbers for tokens and lasting names; that this is possible shows that
/// nothing in it is owed to the simplification.
pub(crate) fn told(setting: &Setting, path: &[State]) -> Option<Vec<String>> {
    let mut steps = Vec::new();
    walk(setting, &State::default(), path.get(1..)?, &mut steps).then_some(steps)
}

fn walk(setting: &Setting, from: &State, path: &[State], steps: &mut Vec<String>) -> bool {
    let Some((to, rest)) = path.split_first() else {
        return true;
    };
    let mut actions = Vec::new();
    possible(setting, from, LATEST, &mut actions);
    for action in actions {
        let next = step(setting, from, action);
        if canonical(setting, next.clone()) == *to {
            steps.push(tell(setting, from, action) + &implied(setting, from, &next, action));
            if walk(setting, &next, rest, steps) {
                return true;
            }
            steps.pop();
        }
    }
    false
}

fn tell(setting: &Setting, from: &State, action: Action) -> String {
    match action {
        Action::Acquire { at, time, reply } => {
            let who = name(setting, at.attempt);
            let (does, token) = match time {
                0 => ("tells again", from.servers[at.server].token),
                _ => ("grants", time),
            };
            let then = match reply {
                Reply::Lost => ", the reply is lost".to_owned(),
                Reply::Heard => String::new(),
                Reply::Enough(raise) => format!(", which continues with T = {raise}"),
            };
            format!("server {} {does} {token} to {who}{then}", at.server + 1)
        }
        Action::Raise { at, heard } => {
            let who = name(setting, at.attempt);
            let to = from.attempts[at.attempt].token;
            let server_has = from.servers[at.server].token;
            let then = if heard { "" } else { ", the reply is lost" };
            let number = at.server + 1;
            if server_has > to {
                format!("server {number} keeps {who} at {server_has}, which counts{then}")
            } else {
                format!("server {number} raises {who} from {server_has} to {to}{then}")
            }
        }
        Action::Return { attempt } => {
            let (who, token) = (name(setting, attempt), from.attempts[attempt].token);
            format!("{who} returns with the lock, token {token}")
        }
        Action::Write { attempt } => {
            let (who, token) = (name(setting, attempt), from.attempts[attempt].token);
            format!(
                "{who} writes with token {token}, the register has {}",
                from.register
            )
        }
        Action::LeaseEnds { server } => format!("the lease on server {} ends", server + 1),
        Action::LateRelease { at } => {
            let (who, number) = (name(setting, at.attempt), at.server + 1);
            format!("the RELEASE of {who} arrives late on server {number}")
        }
        Action::Crash { server } => format!("server {} loses its memory", server + 1),
    }
}

/// The steps that happen together with an action, without loss of generality ([`crate::normal`]).
fn implied(setting: &Setting, from: &State, next: &State, action: Action) -> String {
    let mut text = String::new();
    for server in 0..setting.servers {
        let (before, after) = (&from.servers[server], &next.servers[server]);
        let told = match action {
            Action::LeaseEnds { server: it }
            | Action::LateRelease {
                at: At { server: it, .. },
            } => it == server && after.last == before.last,
            Action::Crash { server: it } => it == server,
            _ => false,
        };
        // Of a state in which nobody can return any more, nothing is kept.
        if told || next.servers == <[Server; MOST_SERVERS]>::default() {
            continue;
        }
        let number = server + 1;
        if after.last < before.last {
            let _ = write!(text, "; server {number} loses its memory");
        } else if before.owner != owner::FREE && after.owner == owner::FREE {
            let _ = write!(text, "; the lease on server {number} ends");
        }
    }
    text
}

/// A1 is the first attempt of client A.
fn name(setting: &Setting, attempt: usize) -> String {
    let client = ["A", "B", "C"][attempt / setting.attempts];
    format!("{client}{}", attempt % setting.attempts + 1)
}
