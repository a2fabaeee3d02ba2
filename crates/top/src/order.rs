//! The orders of the view, the questions before destructive ones, and the updates that the view receives.

use crate::snapshot::{Found, Held, Id, Snapshot, What};
use redis_lock_tool::{Program, Waiter, words};

/// The width of a name in a question. Longer names are shortened.
const MAX_NAME: usize = 60;

/// An order from the view for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) server: String,
    pub(crate) action: Action,
}

/// The action of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Read the queue of this lock, or the locks of this program.
    Look(What),
    /// Close the connection of this client, if it waits for the lock.
    Kill(Vec<u8>, i64),
    /// Delete the lock if its grant still has this token.
    Unlock(Vec<u8>, i64),
    /// End this session.
    End(i64),
}

/// An update for the view.
#[derive(Clone, Debug)]
pub(crate) enum Update {
    /// A new snapshot.
    Snapshot(Snapshot),
    /// The queue of a lock, or the locks of a program.
    Found(Id, Found),
    /// The result of an order, as a message.
    Done(String),
}

impl Order {
    /// The order to read this lock or program.
    pub(crate) fn look(id: &Id) -> Self {
        Self {
            server: id.server.clone(),
            action: Action::Look(id.what.clone()),
        }
    }
}

/// A question and its action, or the reason why there is nothing to ask.
type Asked = Result<(String, Action), String>;

/// Asks whether to free a lock.
pub(crate) fn unlock(server: &str, key: &[u8], held: Option<&Held>) -> Asked {
    let held = held.ok_or("that lock is free")?;
    let text = format!(
        "Delete {} on {server}, held by {} for {} (token {})?\n\
         The owner may still be working, and is notified only if it has a session. The first \
         waiter gets the lock.",
        short(key),
        short_owner(&held.owner),
        words::length(held.held_ms),
        held.token,
    );
    let action = Action::Unlock(key.to_vec(), held.token);
    Ok((text, action))
}

/// Asks whether to kill the client of a waiting call. A queued call has no client of its own.
pub(crate) fn kill(server: &str, key: &[u8], waiter: Option<&Waiter>, now: &Snapshot) -> Asked {
    let waiter = waiter.ok_or("nobody waits")?;
    if now.is_queued(server, waiter) {
        let owner = short_owner(&waiter.owner);
        return Err(format!(
            "a queued call has no connection: LOCK.RELEASE … {owner} ALL cancels it"
        ));
    }
    let client = waiter.client_id;
    let text = format!(
        "Close the connection of client {client}, which waits as {} for {} on {server}?\n\
         Everything else on that connection ends too.",
        short_owner(&waiter.owner),
        short(key),
    );
    let action = Action::Kill(key.to_vec(), client);
    Ok((text, action))
}

/// Asks whether to end the session of a program.
pub(crate) fn end(server: &str, program: Option<&Program>) -> Asked {
    let program = program.ok_or("that program has ended")?;
    let text = format!(
        "End session {} of {} on {server}, and release the {} locks that it holds?\n\
         Its {} waiting calls end. It is {}: make sure that it is not working.",
        program.id,
        words::cut(&program.label(), MAX_NAME),
        program.grants,
        program.waiting,
        program.state().word(),
    );
    let action = Action::End(program.id);
    Ok((text, action))
}

/// Shortens a name to leave space for the rest of the question.
pub(crate) fn short(name: &[u8]) -> String {
    words::cut(&words::name(name), MAX_NAME)
}

fn short_owner(name: &[u8]) -> String {
    words::cut_owner(&words::name(name), MAX_NAME)
}
