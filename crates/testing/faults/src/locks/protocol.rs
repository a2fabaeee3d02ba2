//! Calls as commands to send, replies as outcomes.

use history::{Action, Down, Granted, Holder, Limit, Outcome, Refusal};
use redis::{Cmd, Value};
use testbed::{Expect, Grant};

/// The holders of the lock, by its primary: a replica, which may lag behind, answers `READONLY`.
const LOOK: &str = "local fenced = redis.pcall('LOCK.FENCE', KEYS[1], 1)
    if fenced.err and string.find(fenced.err, 'READONLY') then return fenced end
    return redis.call('LOCK.HOLDERS', KEYS[1])";

/// The command for an action. `wait_ms` is for an acquire that blocks.
pub(crate) fn command(key: &str, owner: &str, action: &Action, wait_ms: u64) -> Cmd {
    let mut command = Builder(redis::cmd(match action {
        Action::Acquire(_) => "LOCK.ACQUIRE",
        Action::Release { .. } => "LOCK.RELEASE",
        Action::Renew(_) => "LOCK.RENEW",
        Action::Fence(_) => "LOCK.FENCE",
        Action::Look => "EVAL",
        Action::Remove => "DEL",
    }));
    if *action == Action::Look {
        command.0.arg(LOOK).arg(1);
    }
    command.0.arg(key);
    match action {
        Action::Acquire(asks) => {
            command.0.arg(owner);
            command.limit(asks.limit);
            command.option("PX", asks.lease);
            command.option("BLOCK", asks.block.then_some(wait_ms));
            command.option("HOLDS", asks.holds);
            command.option("TOKEN", asks.token);
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
        Action::Renew(asks) => {
            command.0.arg(owner);
            command.limit(asks.limit);
            command.option("PX", asks.lease);
            command.option("TOKEN", asks.token);
            command.option("RAISE", asks.raise);
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
    fn limit(&mut self, limit: Option<Limit>) {
        match limit {
            None => {}
            Some(Limit::NONE) => {
                self.0.arg("SHARED");
            }
            Some(limit) => self.option("LIMIT", Some(limit.number())),
        }
    }

    fn option(&mut self, name: &str, value: Option<impl redis::ToRedisArgs>) {
        if let Some(value) = value {
            self.0.arg(name).arg(value);
        }
    }
}

/// The meaning of a reply for the lock.
pub(crate) fn outcome(action: &Action, value: Value) -> Outcome {
    match (action, value) {
        (_, Value::Nil) => Outcome::Nil,
        (Action::Acquire(_) | Action::Renew(_), value) => {
            let grant = Grant::try_from(value).unwrap_or_else(|e| panic!("{action:?}: {e}"));
            let limit = grant.limit.map(|limit| Value::Int(limit).number());
            Outcome::Grant(Granted {
                token: Value::Int(grant.token).number(),
                owner: String::from_utf8(grant.owner).expect("our owners are text"),
                holds: Value::Int(grant.holds).number(),
                lease: Value::Int(grant.lease).number(),
                limit: limit.map(Limit::new),
            })
        }
        (Action::Look, value) => {
            let holders: Vec<_> = value.items().into_iter().map(holder).collect();
            if holders.is_empty() {
                Outcome::Nil
            } else {
                Outcome::Holders(holders)
            }
        }
        (Action::Release { .. }, value) => Outcome::Left(value.number()),
        (Action::Fence(_) | Action::Remove, _) => Outcome::Done,
    }
}

fn holder(value: Value) -> Holder {
    let mut fields = value.fields();
    let mut take = |name: &str| fields.remove(name).expect("a field of a holder");
    Holder {
        owner: take("owner").text(),
        token: take("token").number(),
        holds: take("holds").number(),
        lease: take("lease-ms").number(),
        limit: Limit::new(take("limit").number()),
    }
}

/// The meaning of an error for the lock; none if the error is not about it.
pub(crate) fn refusal(code: &str) -> Option<Refusal> {
    match code {
        "NOTHELD" => Some(Refusal::NotHeld),
        "NOTOWNER" => Some(Refusal::NotOwner),
        "FENCED" => Some(Refusal::Fenced),
        "AHEAD" => Some(Refusal::Ahead),
        "NOTALONE" => Some(Refusal::NotAlone),
        "DEADLOCK" => Some(Refusal::Deadlock),
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
