//! The loop that polls the session of a node. It is the only user of the session's connection, runs in the background,
//! and runs no code of the user.

use crate::background::sleep;
use crate::core::{Core, Locked};
use crate::pauses::Pauses;
use crate::server::Poller;
use crate::state::time::millis;
use crate::state::{Fault, Time, command};
use redis::Cmd;
use std::sync::Arc;
use std::time::Duration;

/// Polls until nothing depends on the session, or the client is closed.
pub(crate) async fn run(core: Arc<Core>, node: usize) {
    let server = Arc::clone(&core.lock().loops[node].server);
    let mut poller = Poller::new(server);
    let (mut pauses, mut was_unknown, mut waits) = (Pauses::default(), false, false);
    loop {
        let began = crate::core::now();
        let ended = tokio::select! {
            ended = round(&core, node, &mut poller, waits) => ended,
            () = core.aborting.cancelled() => Err(Fault::no_reply("the client is closed", false)),
        };
        waits = matches!(ended, Ok(true));
        let fault = ended.err();
        let is_unknown = fault.as_ref().is_some_and(|fault| fault.is("NOSESSION"));
        if fault.is_some() {
            poller.crowd().close();
        }
        if fault.is_some() && !is_unknown {
            poller.close();
        }
        let Some(is_unsure) = judge(&core, node, began, fault.as_ref()) else {
            return;
        };
        if fault.is_none() || is_unknown && !was_unknown {
            (pauses, was_unknown) = (Pauses::default(), is_unknown);
            continue;
        }
        if !is_unknown && core.servers.is_cluster() {
            relocate(&core, node).await;
        }
        // Grants that are unsure are about to be judged.
        let most = Duration::from_millis(if is_unsure { 100 } else { 1000 });
        rest(&core, node, pauses.next().min(most)).await;
    }
}

/// Applies the end of a round. It returns whether the time of a grant has passed; none: the loop has ended.
fn judge(core: &Arc<Core>, node: usize, began: Time, fault: Option<&Fault>) -> Option<bool> {
    let mut known = core.lock();
    let broken = fault.filter(|fault| !fault.is("NOSESSION"));
    if let Some(broken) = broken {
        known.state.failed(node, began, broken);
    } else if fault.is_some() {
        known.state.session_ended(node);
    }
    if known.state.is_closed || broken.is_some() && known.state.is_idle(node) {
        known.loops[node].is_running = false; // until it is needed
        observe(core, &mut known, node, None);
        return None;
    }
    observe(core, &mut known, node, broken);
    Some(known.state.is_unsure(node))
}

/// Pauses; but a call that needs a session is not kept waiting.
async fn rest(core: &Arc<Core>, node: usize, pause: Duration) {
    const LEAST: Duration = Duration::from_millis(50);
    let needed = Arc::clone(&core.lock().loops[node].needed);
    tokio::select! {
        () = sleep(pause.min(LEAST)) => {}
        () = core.closing.cancelled() => return,
    }
    tokio::select! {
        () = sleep(pause.saturating_sub(LEAST)) => {}
        () = needed.notified() => {}
        () = core.closing.cancelled() => {}
    }
}

/// Opens a session if there is none, then sends what is due and a POLL in one pipeline. `waits`: callers were woken. It
/// returns whether it has woken callers.
async fn round(
    core: &Arc<Core>,
    node: usize,
    poller: &mut Poller,
    waits: bool,
) -> Result<bool, Fault> {
    let limit = core.options.reply;
    let mut session = {
        let mut known = core.lock();
        known.state.leave_session(node);
        known.state.nodes[node].session
    };
    if session == 0 {
        session = open(core, poller).await?;
        let is_closed = {
            let mut known = core.lock();
            known.state.opened(node, session);
            known.state.is_closed
        };
        if is_closed {
            let close = command!["LOCK.SESSION", "CLOSE", session];
            poller.send(limit, vec![close]).await;
            return Ok(false);
        }
    }
    let calls = poller.crowd().take(waits).await;
    let (sent, block, due) = {
        let mut known = core.lock();
        let due = known.state.due(node);
        (known.state.at, known.state.block(node), due)
    };
    let (mut commands, then): (Vec<Cmd>, Vec<_>) = due.into_iter().unzip();
    let (called, callers): (Vec<Cmd>, Vec<_>) = calls
        .into_iter()
        .map(|call| (call.command, call.reply))
        .unzip();
    commands.extend(called);
    let mut poll = command!["LOCK.SESSION", "POLL", session];
    let many = u32::try_from(1 + commands.len() / 500).unwrap_or(u32::MAX); // so that each reply has its time
    let mut limit = limit * many;
    if commands.is_empty() {
        poll.arg("BLOCK").arg(millis(block));
        limit += block;
    }
    commands.push(poll);
    let mut replies = poller.send(limit, commands).await;
    let outcome = replies.pop().expect("a reply to each");
    let answers = replies.split_off(then.len());
    let mut known = core.lock();
    for (then, reply) in then.into_iter().zip(&replies) {
        known.state.apply(node, session, sent, then, reply);
    }
    if known.state.nodes[node].session == session
        && let Ok(reply) = &outcome
    {
        known.state.polled(node, sent, reply);
    }
    let has_woken = outcome.is_ok() && !known.state.changed.is_empty();
    if has_woken {
        poller.crowd().open(); // before they wake
    }
    drop(known);
    for (caller, answer) in callers.into_iter().zip(answers) {
        let _ = caller.send(answer); // it may have gone
    }
    outcome.map(|_| has_woken)
}

async fn open(core: &Arc<Core>, poller: &mut Poller) -> Result<u64, Fault> {
    let options = &core.options;
    let (timeout, service) = (millis(options.silence), &options.service);
    let open = command!["LOCK.SESSION", "OPEN", "TIMEOUT", timeout, "NAME", service];
    let mut replies = poller.send(options.reply, vec![open]).await;
    let reply = replies.pop().expect("a reply")?;
    match crate::state::reply::number(&reply) {
        0 => Err(Fault::no_reply("OPEN answered no session", false)),
        session => Ok(session),
    }
}

/// Sends on what a node of the cluster that does not answer may have lost to another one.
async fn relocate(core: &Arc<Core>, node: usize) {
    let claims = core.lock().state.claims_on(node);
    core.servers.refresh();
    for (id, key) in claims {
        let at = core.route(&key, None, core.options.reply).await;
        if at.is_ok_and(|at| at.node != node) {
            core.lock().state.relocate(id);
        }
    }
}

/// Reports that the connection has broken or is back.
fn observe(core: &Arc<Core>, known: &mut Locked<'_>, node: usize, fault: Option<&Fault>) {
    let it = &mut known.loops[node];
    if it.is_down == fault.is_some() {
        return;
    }
    it.is_down = fault.is_some();
    let (server, cause) = (it.server.address.clone(), fault.map(ToString::to_string));
    core.observe(move |observer| observer.connection(&server, cause.as_deref()));
}
