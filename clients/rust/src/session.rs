//! The loop that polls the session of a node. It is the only user of the session's connection, runs in the background,
//! and runs no code of the user.

use crate::background::{sleep, timeout};
use crate::core::{Core, Locked};
use crate::error::Error;
use crate::pauses::Pauses;
use crate::server::{Link, Server};
use crate::state::reply::number;
use crate::state::time::millis;
use crate::state::{Reply, command};
use std::sync::Arc;
use std::time::Duration;

/// Polls until the client is closed.
pub(crate) async fn run(core: Arc<Core>, node: usize) {
    let polling = poll(&core, node);
    core.closing.run_until_cancelled(polling).await;
    observe(&core, &mut core.lock(), node, None);
}

async fn poll(core: &Arc<Core>, node: usize) {
    let server = core.servers.server(node);
    let mut link = Link::default();
    let (mut pauses, mut was_unknown) = (Pauses::default(), false);
    loop {
        let began = crate::core::now();
        let fault = round(core, node, &server, &link).await.err();
        let is_unknown = fault.as_ref().is_some_and(|fault| fault.is("NOSESSION"));
        let broken = fault.as_ref().filter(|_| !is_unknown);
        let is_unsure = {
            let mut state = core.lock();
            if state.is_closed {
                return;
            }
            if let Some(fault) = broken {
                state.failed(node, began, fault);
            } else if is_unknown {
                state.session_ended(node);
            }
            observe(core, &mut state, node, broken);
            state.is_unsure(node)
        };
        if broken.is_some() {
            link = Link::default();
        }
        if fault.is_none() || is_unknown && !was_unknown {
            (pauses, was_unknown) = (Pauses::default(), is_unknown);
            continue;
        }
        // Grants that are unsure are about to be judged.
        let most = Duration::from_millis(if is_unsure { 100 } else { 1000 });
        rest(core, node, pauses.next().min(most)).await;
    }
}

/// Pauses; but a call that needs a session is not kept waiting.
async fn rest(core: &Arc<Core>, node: usize, pause: Duration) {
    const LEAST: Duration = Duration::from_millis(50);
    let needed = Arc::clone(&core.lock().nodes[node].needed);
    sleep(pause.min(LEAST)).await;
    let _ = timeout(pause.saturating_sub(LEAST), needed.notified()).await;
}

/// Opens a session if there is none, then sends what is due, and then a POLL.
async fn round(core: &Arc<Core>, node: usize, server: &Server, link: &Link) -> Result<(), Error> {
    let limit = core.options.reply;
    let mut session = {
        let mut state = core.lock();
        state.leave_session(node);
        state.nodes[node].session
    };
    if session == 0 {
        session = open(core, server, link).await?;
        let is_closed = {
            let mut state = core.lock();
            state.opened(node, session);
            state.is_closed
        };
        if is_closed {
            let close = command!["LOCK.SESSION", "CLOSE", session];
            server.send(link, limit, vec![close]).await;
            return Ok(());
        }
    }
    let (sent, due) = {
        let mut state = core.lock();
        (state.at, state.due(node))
    };
    let (commands, applies): (Vec<_>, Vec<_>) = due.into_iter().unzip();
    if !commands.is_empty() {
        let many = u32::try_from(1 + commands.len() / 500).unwrap_or(u32::MAX); // so that each reply has its time
        let replies = server.send(link, limit * many, commands).await;
        let mut state = core.lock();
        for (apply, reply) in applies.into_iter().zip(&replies) {
            apply(&mut state, sent, reply);
        }
        if let Some(Err(fault)) = replies.into_iter().find(is_broken) {
            return Err(fault);
        }
    }
    let (sent, block) = {
        let mut state = core.lock();
        (state.at, state.block(node))
    };
    let poll = command!["LOCK.SESSION", "POLL", session, "BLOCK", millis(block)];
    let mut replies = server.send(link, limit + block, vec![poll]).await;
    let reply = replies.pop().expect("a reply")?;
    let mut state = core.lock();
    if state.nodes[node].session == session {
        state.polled(node, sent, &reply);
    }
    Ok(())
}

fn is_broken(reply: &Reply) -> bool {
    reply.as_ref().is_err_and(Error::is_broken)
}

async fn open(core: &Arc<Core>, server: &Server, link: &Link) -> Result<u64, Error> {
    let options = &core.options;
    let (timeout, service) = (millis(options.silence), &options.service);
    let open = command!["LOCK.SESSION", "OPEN", "TIMEOUT", timeout, "NAME", service];
    let mut replies = server.send(link, options.reply, vec![open]).await;
    match number(&replies.pop().expect("a reply")?) {
        0 => Err(Error::unsent("OPEN returned no session id")),
        session => Ok(session),
    }
}

/// Reports that the connection has broken or is back.
fn observe(core: &Arc<Core>, state: &mut Locked<'_>, node: usize, fault: Option<&Error>) {
    let it = &mut state.nodes[node];
    if it.is_down == fault.is_some() {
        return;
    }
    it.is_down = fault.is_some();
    let (server, cause) = (
        it.address.clone(),
        fault.map(|fault| fault.cause().to_owned()),
    );
    crate::core::observe(core.options.observer.as_ref(), move |observer| {
        observer.connection(&server, cause.as_deref());
    });
}
