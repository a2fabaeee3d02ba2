//! Waiting in the server's line.

use super::commands::{acquire_in_line, granted, renew};
use super::{CallError, Direct, Link, Node, Pending};
use crate::request::{Change, Grant, Granted, Request, Wait};
use redis::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::{Instant, sleep, timeout};

/// How many calls of this process wait for each key.
#[derive(Default)]
pub(crate) struct Lines(Mutex<HashMap<Vec<u8>, usize>>);

/// One of them.
pub(crate) struct InLine<'a> {
    lines: &'a Lines,
    key: &'a [u8],
}

impl Lines {
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.contains_key(key)
    }

    pub(crate) fn join<'a>(&'a self, key: &'a [u8]) -> InLine<'a> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *lines.entry(key.to_vec()).or_default() += 1;
        InLine { lines: self, key }
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut lines = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = lines.get_mut(self.key) {
            *count -= 1;
            if *count == 0 {
                lines.remove(self.key);
            }
        }
    }
}

impl Direct {
    /// One call that waits for the whole time that is left, for ever without one; then a look whether enough
    /// replicas have the grant, where that is asked for. What it is granted is not kept yet.
    pub(crate) async fn wait_once(
        &self,
        request: &Request,
        wait: Wait,
        pending: &mut Pending,
    ) -> Result<Option<Granted>, CallError> {
        let node = self.route.node(&request.key).await?;
        let answer = match self.wait_at(&node, request, wait, false, pending).await {
            Err(CallError::Ask(address, _)) => {
                let other = self.route.asked_to(&node, &address)?;
                self.wait_at(&other, request, wait, true, pending).await
            }
            answer => answer,
        };
        answer.map_err(|error| self.route.learn(&request.key, &node, error))
    }

    async fn wait_at(
        &self,
        node: &Arc<Node>,
        request: &Request,
        wait: Wait,
        asking: bool,
        pending: &mut Pending,
    ) -> Result<Option<Granted>, CallError> {
        let link = node.wait_link().await?;
        let began = Instant::now();
        let block = wait.block(began);
        let call = acquire_in_line(request, block);
        let on = link.clone();
        let sent = async move {
            if asking {
                on.send_asking(&call).await
            } else {
                on.send(&call).await
            }
        };
        let sent = pending.waits(node, &link, sent);
        let limit = async {
            match block {
                // The time of a reply is what the server may be late.
                Some(block) if !block.is_zero() => sleep(block + self.times.reply).await,
                Some(_) => std::future::pending().await,
                None => sleep(self.times.reply).await,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = sent => answer,
            () = self.watch(node) => Err(CallError::silence()),
            () = limit => Err(CallError::silence()),
        };
        let read = |value| granted(&request.key, began, &value).map_err(CallError::Refused);
        let answer = match answer.and_then(read) {
            Ok(Some(granted)) => {
                pending.has_got(&granted.grant);
                match request.replicas {
                    0 => Ok(Some(granted)),
                    wanted => {
                        (self.acknowledged(node, &link, wanted).await).map(|()| Some(granted))
                    }
                }
            }
            answer => answer,
        };
        match &answer {
            Err(CallError::Broken(_)) => link.close(),
            Err(error) if error.is_of_replica() => node.leave(&link),
            _ => node.give_back(link),
        }
        pending.waits_no_more();
        answer
    }

    /// Comes back when a wait at this server is in vain: it does not answer, or is not the right one any
    /// more.
    async fn watch(&self, node: &Node) {
        loop {
            match timeout(self.times.reply, node.keeper()).await {
                Err(_) | Ok(Err(CallError::Broken(_))) => return,
                // It answers, if not as it should.
                Ok(Err(_)) => sleep(self.times.reply).await,
                Ok(Ok(keeper)) => {
                    let _attention = keeper.attend();
                    loop {
                        tokio::select! {
                            () = keeper.link.closed() => break,
                            () = sleep(self.times.reply) => {}
                        }
                        if self.route.has_left(node).await {
                            return;
                        }
                    }
                    if keeper.link.was_silent() {
                        return; // so may the connection be on which it waits
                    }
                }
            }
        }
    }

    /// Whether so many replicas have a grant as it stands: a renewal comes behind what was written of it before.
    pub(super) async fn acknowledge_once(
        &self,
        grant: &Grant,
        wanted: u32,
    ) -> Result<(), CallError> {
        let node = self.route.node(&grant.key).await?;
        let link = node.wait_link().await?;
        let known = async {
            let renewal = renew(grant, Change::default());
            node.call_on(&link, &renewal).await?;
            self.acknowledged(&node, &link, wanted).await
        };
        let known = known.await;
        node.give_back(link);
        known.map_err(|error| self.route.learn(&grant.key, &node, error))
    }

    /// Whether so many replicas have what was written on this connection.
    async fn acknowledged(&self, node: &Node, link: &Link, wanted: u32) -> Result<(), CallError> {
        let time = (self.times.reply * 3 / 4).as_millis().to_string();
        let call = super::commands::Call::words(&["WAIT", &wanted.to_string(), &time]);
        match node.call_on(link, &call).await? {
            Value::Int(count) if count >= i64::from(wanted) => Ok(()),
            answer => Err(CallError::Refused(crate::Error::Unavailable(
                std::io::Error::other(format!("of {wanted} replicas {answer:?} have the lock"))
                    .into(),
            ))),
        }
    }
}
