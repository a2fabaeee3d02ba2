//! Calls and writes as a reader wants to see them, in one line.

use std::fmt;

use crate::{Action, Call, Down, Limit, Moment, Outcome, Span, Write};

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (span, client) = (Span::of(self), self.client);
        write!(f, "[{span} client {client}: {}", self.action)?;
        if !self.owner.is_empty() {
            write!(f, " by {}", self.owner)?;
        }
        write!(f, " -> {}]", self.outcome)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire(asks) => {
                write!(f, "ACQUIRE")?;
                named_limit(f, asks.limit)?;
                option(f, "PX", asks.lease)?;
                if asks.block {
                    write!(f, " BLOCK")?;
                }
                option(f, "HOLDS", asks.holds)?;
                option(f, "TOKEN", asks.token)
            }
            Self::Release { down, token } => {
                write!(f, "RELEASE")?;
                match down {
                    Down::One => {}
                    Down::All => write!(f, " ALL")?,
                    Down::To(holds) => write!(f, " HOLDS {holds}")?,
                }
                option(f, "TOKEN", *token)
            }
            Self::Renew(asks) => {
                write!(f, "RENEW")?;
                named_limit(f, asks.limit)?;
                option(f, "PX", asks.lease)?;
                option(f, "TOKEN", asks.token)?;
                option(f, "RAISE", asks.raise)
            }
            Self::Fence(token) => write!(f, "FENCE {token}"),
            Self::Look => write!(f, "HOLDERS"),
            Self::Remove => write!(f, "removal"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grant(it) => {
                let (token, owner, holds, lease) = (it.token, &it.owner, it.holds, it.lease);
                write!(f, "{token} of {owner}, holds {holds}, lease {lease}")?;
                option(f, "limit", it.limit)
            }
            Self::Holders(holders) => {
                for (place, holder) in holders.iter().enumerate() {
                    let separator = if place == 0 { "" } else { "; " };
                    write!(
                        f,
                        "{separator}{} of {}, holds {}, lease {}, limit {}",
                        holder.token, holder.owner, holder.holds, holder.lease, holder.limit
                    )?;
                }
                Ok(())
            }
            Self::Nil => write!(f, "nil"),
            Self::Left(holds) => write!(f, "{holds}"),
            Self::Done => write!(f, "OK"),
            Self::Refused(refusal) => write!(f, "{refusal:?}"),
            Self::Untouched => write!(f, "another error"),
            Self::Lost => write!(f, "no reply"),
            Self::GivenBack => write!(f, "closed by the server"),
        }
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = Span::new(self.sent, self.ended);
        write!(f, "[{span} {:?} write", self.register)?;
        write!(f, " with {} -> {:?}]", self.token, self.written)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Seconds(self.from), Seconds(self.to))
    }
}

/// A moment in seconds.
pub(crate) struct Seconds(pub(crate) Moment);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == Moment::MAX {
            return write!(f, "the end");
        }
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

fn option(f: &mut fmt::Formatter<'_>, name: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    match value {
        Some(value) => write!(f, " {name} {value}"),
        None => Ok(()),
    }
}

fn named_limit(f: &mut fmt::Formatter<'_>, limit: Option<Limit>) -> fmt::Result {
    match limit {
        None => Ok(()),
        Some(Limit::NONE) => write!(f, " SHARED"),
        Some(limit) => write!(f, " LIMIT {limit}"),
    }
}
