//! The connection that a call about a key goes on: the keeper of the server that has the key, as far as is known.

use super::calls::SentTo;
use super::commands::{Call, holders};
use super::{CallError, Keeper, Node, Route};
use crate::holder::Holder;
use crate::request::Grant;
use crate::{Error, Loss};
use redis::Value;
use std::sync::{Arc, Weak};

/// What others may have by now, as they know its owner: what the owner has, or the grant with this token.
pub(crate) struct Own<'a> {
    pub(crate) owner: &'a str,
    pub(crate) token: Option<u64>,
    /// Where it was kept last, if it was.
    pub(crate) kept_by: Weak<Keeper>,
}

impl<'a> Own<'a> {
    /// A grant, kept here if by anybody.
    pub(crate) fn of(grant: &'a Grant, keeper: Option<&Arc<Keeper>>) -> Self {
        Self {
            owner: &grant.owner,
            token: Some(grant.token),
            kept_by: keeper.map_or_else(Weak::new, Arc::downgrade),
        }
    }

    fn is(&self, holder: &Holder) -> bool {
        match self.token {
            Some(token) => holder.token == token,
            None => holder.owner == self.owner.as_bytes(),
        }
    }
}

pub(super) struct Line<'a> {
    route: &'a Route,
    key: &'a [u8],
    node: Arc<Node>,
    pub(super) keeper: Arc<Keeper>,
    /// Another server has said to ask this one.
    is_asking: bool,
}

impl<'a> Line<'a> {
    pub(super) async fn to(route: &'a Route, key: &'a [u8]) -> Result<Self, CallError> {
        let node = route.node(key).await?;
        let keeper = node.keeper().await;
        Ok(Self {
            route,
            key,
            keeper: keeper.map_err(|error| route.learn(key, &node, error))?,
            node,
            is_asking: false,
        })
    }

    /// The keeper of this server that is open, if one is.
    pub(super) async fn of(route: &'a Route, key: &'a [u8], node: &Arc<Node>) -> Option<Self> {
        Some(Self {
            route,
            key,
            keeper: node.open_keeper().await?,
            node: Arc::clone(node),
            is_asking: false,
        })
    }

    /// Where the answer [`CallError::Ask`] leads, for one call.
    pub(super) async fn asked(&self, address: &str) -> Result<Self, CallError> {
        let node = self.route.asked_to(&self.node, address)?;
        Ok(Self {
            route: self.route,
            key: self.key,
            keeper: node.keeper().await?,
            node,
            is_asking: true,
        })
    }

    /// Sends a call, and tells where. One about what is one's own, as far as is known, is sent on the connection that has
    /// kept it, which the server closes when somebody else is to keep it; on another one only when a look there has told
    /// that nobody else does.
    pub(super) async fn send_own(
        &self,
        call: &Call,
        own: Option<&Own<'_>>,
        sent_to: &mut SentTo,
    ) -> Result<Value, CallError> {
        if let Some(own) = own
            && !std::ptr::eq(own.kept_by.as_ptr(), Arc::as_ptr(&self.keeper))
        {
            self.look(own).await?;
        }
        *sent_to = Some(Arc::clone(&self.keeper));
        self.send(call).await
    }

    /// Fails where somebody else keeps it. It is not taken back: each would take it from the other without end. False
    /// where that cannot be known.
    pub(super) async fn look(&self, own: &Own<'_>) -> Result<bool, CallError> {
        match self.send(&holders(self.key)).await {
            Ok(answer) => {
                let is_own = |holder: &Holder| own.is(holder);
                match self.keeper.is_kept_elsewhere(is_own, &answer) {
                    Some(true) => Err(CallError::Refused(Error::Lost(Loss::KeptElsewhere))),
                    known => Ok(known.is_some()),
                }
            }
            Err(CallError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn send(&self, call: &Call) -> Result<Value, CallError> {
        let link = &self.keeper.link;
        if self.is_asking {
            return self.node.ask_on(link, call).await;
        }
        let answer = self.node.call_on(link, call).await;
        answer.map_err(|error| self.route.learn(self.key, &self.node, error))
    }
}
