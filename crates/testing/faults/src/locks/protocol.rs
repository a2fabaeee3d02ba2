//! Calls as commands to send, replies as outcomes.

use history::{Action, Down, Outcome, Refusal};
use redis::{Cmd, Value};
use testbed::{Expect, Grant, LockInfo};

/// The command for an action. `wait_ms` is for an acquire that blocks.
pub(crate) fn command(key: &str, owner: &str, action: &Action, wait_ms: u64) -> Cmd {
    let mut command = Builder(redis::cmd(match action {
        Action::Acquire { .. } => "LOCK.ACQUIRE",
        Action::Release { .. } => "LOCK.RELEASE",
        Action::Renew { .. } => "LOCK.RENEW",
        Action::Fence(_) => "LOCK.FENCE",
        Action::Look => "LOCK.INFO",
        Action::Remove => "DEL",
    }));
    command.0.arg(key);
    match action {
        Action::Acquire {
            lease,
            block,
            holds,
            token,
        } => {
            command.0.arg(owner);
            command.option("PX", *lease);
            command.option("BLOCK", block.then_some(wait_ms));
            command.option("HOLDS", *holds);
            command.option("TOKEN", *token);
        }
        Action::Release { down, token } => {
            command.0.arg(owner);
            match down {
                Down::One => {}
                Down::All => {
                    command.0.arg("ALL");
                }
                Down::To(holds) => command.option("HOLDS", Some(*holds)),
            }
            command.option("TOKEN", *token);
        }
        Action::Renew {
            lease,
            token,
            raise,
        } => {
            command.0.arg(owner);
            command.option("PX", *lease);
            command.option("TOKEN", *token);
            command.option("RAISE", *raise);
        }
        Action::Fence(token) => {
            command.0.arg(token);
        }
        Action::Look | Action::Remove => {}
    }
    command.0
}

struct Builder(Cmd);

impl Builder {
    fn option(&mut self, name: &str, value: Option<impl redis::ToRedisArgs>) {
        if let Some(value) = value {
            self.0.arg(name).arg(value);
        }
    }
}

/// What a reply says of the lock.
pub(crate) fn outcome(action: &Action, value: Value) -> Outcome {
    match (action, value) {
        (_, Value::Nil) => Outcome::Nil,
        (Action::Acquire { .. } | Action::Renew { .. }, value) => {
            let grant = Grant::try_from(value).unwrap_or_else(|e| panic!("{action:?}: {e}"));
            granted(grant.token, grant.owner, grant.holds, grant.lease)
        }
        (Action::Look, value) => {
            let info = LockInfo::try_from(value).unwrap_or_else(|e| panic!("{action:?}: {e}"));
            granted(info.token, info.owner, info.holds, info.lease_ms)
        }
        (Action::Release { .. }, value) => {
            Outcome::Left(u32::try_from(value.int()).expect("a hold count"))
        }
        (Action::Fence(_) | Action::Remove, _) => Outcome::Done,
    }
}

fn granted(token: i64, owner: Vec<u8>, holds: i64, lease: i64) -> Outcome {
    Outcome::Grant {
        token: u64::try_from(token).expect("a token is positive"),
        owner: String::from_utf8(owner).expect("our owners are text"),
        holds: u32::try_from(holds).expect("a hold count"),
        lease: u64::try_from(lease).expect("a lease is positive"),
    }
}

/// What an error says of the lock; none of an error that is not about it.
pub(crate) fn refusal(code: &str) -> Option<Refusal> {
    match code {
        "NOTHELD" => Some(Refusal::NotHeld),
        "NOTOWNER" => Some(Refusal::NotOwner),
        "FENCED" => Some(Refusal::Fenced),
        "AHEAD" => Some(Refusal::Ahead),
        _ => None,
    }
}

/// Errors of a server that does not take the command now, or not here: nothing was changed.
pub(crate) fn is_passing(code: &str) -> bool {
    const PASSING: [&str; 10] = [
        "OOM",
        "MISCONF",
        "NOREPLICAS",
        "READONLY",
        "LOADING",
        "MASTERDOWN",
        "CLUSTERDOWN",
        "TRYAGAIN",
        "MAXWAITERS",
        "BUSY",
    ];
    PASSING.contains(&code)
}
