//! The loop that polls the session of a node. It is the only user of the session's connection, runs in the background,
//! and runs no code of the user.

use crate::background::{background, sleep, timeout};
use crate::core::{Core, now};
use crate::error::Error;
use crate::pauses::Pauses;
use crate::server::{Link, Server};
use crate::state::{Reply, State, command, millis, number};
use std::sync::Arc;
use std::time::Duration;

/// Polls until the client is closed, or the node has left the cluster.
pub(crate) async fn run(core: Arc<Core>, node: usize) {
    poll(&core, node).await;
    core.with(|state| observe(&core, state, node, None));
}

async fn poll(core: &Arc<Core>, node: usize) {
    let server = core.servers.server(node);
    let mut link = Link::default();
    let (mut pauses, mut was_unknown) = (Pauses::default(), false);
    while !core.closing.is_cancelled() {
        let began = now();
        let fault = round(core, node, &server, &link).await.err();
        let is_unknown = fault.as_ref().is_some_and(|fault| fault.is("NOSESSION"));
        let broken = fault.as_ref().filter(|_| !is_unknown);
        let is_unsure = core.with(|state| {
            if let Some(fault) = broken {
                state.failed(node, began, fault);
            } else if is_unknown {
                state.nodes[node].session = 0;
            }
            observe(core, state, node, broken);
            state.is_unsure(node)
        });
        if fault.is_none() || is_unknown && !was_unknown {
            (pauses, was_unknown) = (Pauses::default(), is_unknown);
            continue;
        }
        if broken.is_some() {
            link = Link::default();
        }
        if broken.is_some() && core.servers.is_cluster() {
            relocate(core, node).await;
            let has_left = !core.servers.serves(node, core.options.reply).await;
            if has_left && core.with(|state| state.abandon(node)) {
                return;
            }
        }
        // Grants that are unsure are about to be judged.
        let most = Duration::from_millis(if is_unsure { 100 } else { 1000 });
        rest(core, node, pauses.next().min(most)).await;
    }
}

/// Pauses; but a call that needs a session is not kept waiting.
async fn rest(core: &Arc<Core>, node: usize, pause: Duration) {
    const LEAST: Duration = Duration::from_millis(50);
    let needed = core.with(|state| Arc::clone(&state.nodes[node].needed));
    let needed = async {
        sleep(LEAST).await;
        needed.notified().await;
    };
    let resting = timeout(pause, needed);
    let _ = core.closing.run_until_cancelled(resting).await;
}

/// Opens a session if there is none, then sends what is due, and then a POLL.
async fn round(core: &Arc<Core>, node: usize, server: &Server, link: &Link) -> Result<(), Error> {
    let limit = core.options.reply;
    let mut session = core.with(|state| {
        state.leave_session(node);
        state.nodes[node].session
    });
    if session == 0 {
        let (timeout, service) = (millis(core.options.silence), &core.options.service);
        let open = command!["LOCK.SESSION", "OPEN", "TIMEOUT", timeout, "NAME", service];
        session = number(&server.ask(link, limit, open).await?);
        if session == 0 {
            let why = "OPEN returned no session id";
            return Err(Error::unsent(&server.address, why));
        }
        core.with(|state| state.opened(node, session));
    }
    let (sent, due) = core.with(|state| (state.at, state.due(node)));
    if !due.is_empty() {
        let (commands, applies): (Vec<_>, Vec<_>) = due.into_iter().unzip();
        let many = u32::try_from(1 + commands.len() / 500).unwrap_or(u32::MAX); // so that each reply has its time
        let answers = server.send(link, limit * many, commands).await;
        let (broken, misplaced) = core.with(|state| {
            let mut broken = None;
            for (apply, answer) in applies.into_iter().zip(answers) {
                let reply = Reply::new(answer, node, sent);
                apply(state, &reply);
                broken = broken.or(reply.value.err().filter(Error::is_broken));
            }
            (broken, std::mem::take(&mut state.misplaced))
        });
        for (name, release) in misplaced {
            let core = Arc::clone(core);
            let releasing = async move { core.call(&name.key, None, 2 * limit, &release).await };
            background().spawn(releasing);
        }
        broken.map_or(Ok(()), Err)?;
    }
    let (sent, block) = core.with(|state| (state.at, state.block(node)));
    let poll = command!["LOCK.SESSION", "POLL", session, "BLOCK", millis(block)];
    let polling = server.ask(link, limit + block, poll);
    if let Some(answer) = core.closing.run_until_cancelled(polling).await {
        let answer = answer?;
        core.with(|state| {
            if state.nodes[node].session == session {
                state.polled(node, sent, &answer);
            }
        });
    }
    Ok(())
}

/// Sends on what a node of the cluster that does not answer may have lost to another one.
async fn relocate(core: &Arc<Core>, node: usize) {
    core.servers.refresh();
    let keys = core.with(|state| {
        let claims = state.claims_at(node).into_iter();
        let key = |id| (id, Arc::clone(&state[id].name.key));
        claims.map(key).collect::<Vec<_>>()
    });
    for (id, key) in keys {
        let Ok(to) = core.servers.find(&key, core.options.reply).await else {
            return;
        };
        if to != node {
            core.with(|state| {
                core.start(state, to);
                state.relocate(id, node, to);
            });
        }
    }
}

/// Notes the outcome of a try, and reports that the connection has broken or is back.
fn observe(core: &Core, state: &mut State, node: usize, fault: Option<&Error>) {
    let it = &mut state.nodes[node];
    let before = std::mem::replace(&mut it.fault, fault.cloned());
    if before.is_some() != fault.is_some() {
        let server = it.address.clone();
        let cause = fault.map(|fault| fault.cause().to_owned());
        crate::core::observe(core.options.observer.as_ref(), move |observer| {
            observer.connection(&server, cause.as_deref());
        });
    }
}
