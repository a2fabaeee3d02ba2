//! The server's work for a call: the pieces that an order is made of.

use std::fmt;

use crate::presence::is_present;
use crate::rules::blocks;
use crate::story::Story;
use crate::{Action, Call, Moment, Outcome, Register, Span, Write, Written};

/// How long after a call's end INFO may still show what the call gives back. Other commands have it
/// given back first; INFO changes nothing, and while writes are paused nobody else does.
const GIVE_BACK_DELAY: Moment = 1_000_000;

/// One thing that the server did at one moment.
pub(super) struct Operation<'a> {
    pub(super) what: What<'a>,
    /// Not before.
    pub(super) sent: Moment,
    /// Not after.
    pub(super) ended: Moment,
}

pub(super) enum What<'a> {
    /// A call.
    Call {
        call: &'a Call,
        /// Its owner had a waiting call under way, which it may have called off.
        waits_besides: bool,
        /// The waiting calls behind which an acquire may have stood that was not granted.
        line: Vec<&'a Call>,
        /// One of them may be in the server's way, whose program seems to be away: it has not read everything yet.
        held_up: bool,
    },
    /// A waiting call gave back what it took. It is named by its place among the operations.
    GiveBack(usize),
    /// A write to a register of the same server: a fence.
    Write(&'a Write),
    /// The server went back to some earlier state.
    Loss(Span),
    /// The clock was set back: the leases of shares that had ended, but that nothing has removed, run again.
    SetBack(Span),
}

/// Whether an operation is part of every order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It happened, and may have changed the lock.
    Must,
    /// It happened, and changed nothing.
    Look,
    /// It may have happened.
    May,
    /// It happened if the call that it belongs to has taken something.
    Debt,
}

impl Operation<'_> {
    /// Whether the server settles what is owed of the lock before it does this.
    pub(super) fn is_command(&self) -> bool {
        match &self.what {
            What::Call { call, .. } => call.action != Action::Look,
            What::Write(_) => true,
            What::GiveBack(_) | What::Loss(_) | What::SetBack(_) => false,
        }
    }

    pub(super) fn need(&self) -> Need {
        match &self.what {
            What::GiveBack(_) => Need::Debt,
            What::Loss(_) | What::SetBack(_) => Need::Must,
            What::Write(_) => Need::Look,
            What::Call { call, .. } => match (&call.action, &call.outcome) {
                (_, Outcome::Lost | Outcome::GivenBack) => Need::May,
                (Action::Look | Action::Fence(_), _) | (_, Outcome::Nil | Outcome::Refused(_)) => {
                    Need::Look
                }
                _ => Need::Must,
            },
        }
    }
}

/// The operations of a lock's story.
pub(super) fn operations<'a>(story: &Story<'a>) -> Vec<Operation<'a>> {
    let mut operations = Vec::new();
    for loss in story.losses {
        operations.push(Operation {
            what: What::Loss(*loss),
            sent: loss.from,
            ended: loss.to,
        });
    }
    for back in story.clock.set_back() {
        operations.push(Operation {
            what: What::SetBack(back),
            sent: back.from,
            ended: back.to,
        });
    }
    for write in &story.writes {
        let answered = matches!(write.written, Written::Taken | Written::Refused);
        if write.register == Register::Script && answered {
            operations.push(Operation {
                what: What::Write(write),
                sent: write.sent,
                ended: write.ended,
            });
        }
    }
    for call in &story.calls {
        let lost = call.outcome == Outcome::Lost || call.outcome == Outcome::GivenBack;
        let looks = matches!(call.action, Action::Look | Action::Fence(_));
        if call.outcome == Outcome::Untouched || (lost && looks) {
            continue;
        }
        let line = line(story, call);
        operations.push(Operation {
            what: What::Call {
                call,
                waits_besides: may_call_off(story, call),
                held_up: is_held_up(story, call, &line),
                line,
            },
            sent: call.sent,
            ended: call.ended,
        });
        if lost && call.is_blocked() {
            operations.push(Operation {
                what: What::GiveBack(operations.len() - 1),
                sent: call.sent,
                ended: call.ended.saturating_add(GIVE_BACK_DELAY),
            });
        }
    }
    operations
}

/// Whether a release may have met a waiting call of its owner, and ended it.
fn may_call_off(story: &Story<'_>, release: &Call) -> bool {
    release.action == Action::RELEASE
        && story.calls.iter().any(|call| {
            blocks(call)
                && call.owner == release.owner
                && !matches!(call.outcome, Outcome::Grant(_))
                && call.sent <= release.ended
                && call.ended >= release.sent
        })
}

/// The waiting calls of others under way meanwhile, those too that were sent on to another server in the end.
fn line<'a>(story: &Story<'a>, acquire: &Call) -> Vec<&'a Call> {
    if !acquire.was_denied() {
        return Vec::new();
    }
    let calls = story.calls.iter().copied();
    let meanwhile = calls.take_while(|call| call.sent <= acquire.ended);
    meanwhile
        .filter(|call| blocks(call) && call.ended >= acquire.sent && **call != *acquire)
        .collect()
}

/// Whether a call of a program that may be away is in line: after a stall the server first reads what had reached it,
/// and until then nobody passes such a call.
fn is_held_up(story: &Story<'_>, acquire: &Call, line: &[&Call]) -> bool {
    let span = Span::of(acquire);
    let mut sessions = line.iter().filter_map(|call| call.session);
    sessions.any(|session| !is_present(story.polls, session.id, span))
}

impl fmt::Display for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Call { call, .. } => call.fmt(f),
            What::Write(write) => write.fmt(f),
            What::GiveBack(_) => {
                let span = Span::new(self.sent, self.ended);
                write!(f, "[{span} what a call took is given back]")
            }
            What::Loss(span) => write!(f, "[{span} loss]"),
            What::SetBack(span) => write!(f, "[{span} clock set back]"),
        }
    }
}
