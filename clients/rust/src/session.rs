//! The loop that polls the session of a node. It is the only user of the session's connection, runs in the background,
//! and runs no code of the user.

use crate::background::{background, sleep, timeout};
use crate::core::{Core, now};
use crate::error::Error;
use crate::pauses::Pauses;
use crate::server::{Link, Server};
use crate::state::{Reply, State, command, millis, number};
use redis::{Arg, Cmd};
use std::sync::Arc;
use std::time::Duration;

/// Polls until the client is closed.
pub(crate) async fn run(core: Arc<Core>, node: usize) {
    let polling = poll(&core, node);
    core.closing.run_until_cancelled(polling).await;
    core.with(|state| observe(&core, state, node, None));
}

async fn poll(core: &Arc<Core>, node: usize) {
    let server = core.servers.server(node);
    let mut link = Link::default();
    let (mut pauses, mut was_unknown) = (Pauses::default(), false);
    loop {
        let began = now();
        let fault = round(core, node, &server, &link).await.err();
        let is_unknown = fault.as_ref().is_some_and(|fault| fault.is("NOSESSION"));
        let broken = fault.as_ref().filter(|_| !is_unknown);
        let (is_closed, is_unsure) = core.with(|state| {
            if let Some(fault) = broken {
                state.failed(node, began, fault);
            } else if is_unknown {
                state.nodes[node].session = 0;
            }
            if !state.is_closed {
                observe(core, state, node, broken);
            }
            let is_unsure = broken.is_some() && state.is_unsure(node);
            (state.is_closed, is_unsure)
        });
        if is_closed {
            return;
        }
        if broken.is_some() {
            link = Link::default();
        }
        if fault.is_none() || is_unknown && !was_unknown {
            (pauses, was_unknown) = (Pauses::default(), is_unknown);
            continue;
        }
        if broken.is_some() && core.servers.is_cluster() {
            relocate(core, node).await;
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
    sleep(pause.min(LEAST)).await;
    let _ = timeout(pause.saturating_sub(LEAST), needed.notified()).await;
}

/// Opens a session if there is none, then sends what is due, and then a POLL.
async fn round(core: &Arc<Core>, node: usize, server: &Server, link: &Link) -> Result<(), Error> {
    let limit = core.options.reply;
    let mut session = core.with(|state| {
        state.leave_session(node);
        state.nodes[node].session
    });
    if session == 0 {
        session = open(core, server, link).await?;
        let is_closed = core.with(|state| {
            state.opened(node, session);
            state.is_closed
        });
        if is_closed {
            let close = command!["LOCK.SESSION", "CLOSE", session];
            return server.ask(link, limit, &close).await.map(|_| ());
        }
    }
    let (sent, due) = core.with(|state| (state.at, state.due(node)));
    if !due.is_empty() {
        let (commands, applies): (Vec<_>, Vec<_>) = due.into_iter().unzip();
        let many = u32::try_from(1 + commands.len() / 500).unwrap_or(u32::MAX); // so that each reply has its time
        let answers = server.send(link, limit * many, &commands).await;
        let replies = answers
            .into_iter()
            .map(|answer| Reply::new(answer, node, sent));
        let replies: Vec<_> = replies.collect();
        core.with(|state| {
            for (apply, reply) in applies.into_iter().zip(&replies) {
                apply(state, reply);
            }
        });
        for (command, reply) in commands.into_iter().zip(&replies) {
            match reply.fault() {
                Some(fault) if fault.is_broken() => return Err(fault.clone()),
                Some(fault) if fault.redirects() => release_elsewhere(core, command),
                _ => {}
            }
        }
    }
    let (sent, block) = core.with(|state| (state.at, state.block(node)));
    let poll = command!["LOCK.SESSION", "POLL", session, "BLOCK", millis(block)];
    let answer = server.ask(link, limit + block, &poll).await?;
    core.with(|state| {
        if state.nodes[node].session == session {
            state.polled(node, sent, &answer);
        }
    });
    Ok(())
}

async fn open(core: &Arc<Core>, server: &Server, link: &Link) -> Result<u64, Error> {
    let options = &core.options;
    let (timeout, service) = (millis(options.silence), &options.service);
    let open = command!["LOCK.SESSION", "OPEN", "TIMEOUT", timeout, "NAME", service];
    match number(&server.ask(link, options.reply, &open).await?) {
        0 => Err(Error::unsent(
            &server.address,
            "OPEN returned no session id",
        )),
        session => Ok(session),
    }
}

/// Sends an unfinished release to the node of the cluster that has the key now.
fn release_elsewhere(core: &Arc<Core>, command: Cmd) {
    let core = Arc::clone(core);
    background().spawn(async move {
        let words: Vec<_> = command.args_iter().take(2).collect();
        if let [Arg::Simple(b"LOCK.RELEASE"), Arg::Simple(key)] = words[..] {
            let limit = 2 * core.options.reply;
            core.call(key, None, limit, &command).await;
        }
    });
}

/// Sends on what a node of the cluster that does not answer may have lost to another one.
async fn relocate(core: &Arc<Core>, node: usize) {
    core.servers.refresh();
    for (id, key) in core.with(|state| state.at_node(node)) {
        match core.servers.find(&key, core.options.reply).await {
            Ok(to) if to != node => core.with(|state| {
                core.start(state, to);
                state.relocate(id, node, to);
            }),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// Reports that the connection has broken or is back.
fn observe(core: &Core, state: &mut State, node: usize, fault: Option<&Error>) {
    let it = &mut state.nodes[node];
    if std::mem::replace(&mut it.is_down, fault.is_some()) != fault.is_some() {
        let server = it.address.clone();
        let cause = fault.map(|fault| fault.cause().to_owned());
        crate::core::observe(core.options.observer.as_ref(), move |observer| {
            observer.connection(&server, cause.as_deref());
        });
    }
}
