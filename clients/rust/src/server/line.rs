//! The connection that a call about a key goes on: the keeper of the server that has the key, as far as is known.

use super::calls::SentTo;
use super::commands::{Call, holders};
use super::{CallError, Keeper, Node, Route};
use crate::held::Held;
use crate::{Error, Loss};
use redis::Value;
use std::sync::Arc;

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

    /// Sends a call, and tells where. One about a grant of one's own, where that is named, is sent on the connection that has
    /// kept it, which the server closes when somebody else is to keep it; on another one only when a look there has told
    /// that nobody else does.
    pub(super) async fn send_own(
        &self,
        call: &Call,
        own: Option<&Held>,
        sent_to: &mut SentTo,
    ) -> Result<Value, CallError> {
        if let Some(held) = own
            && !held.was_kept_by(&self.keeper)
        {
            self.look(held).await?;
        }
        *sent_to = Some(Arc::clone(&self.keeper));
        self.send(call).await
    }

    /// Fails where a grant that others know of is kept by somebody else. It is not taken back: each would take it from the
    /// other without end. False where that cannot be known.
    pub(super) async fn look(&self, held: &Held) -> Result<bool, CallError> {
        if !held.is_known_to_others() {
            return Ok(true);
        }
        let grant = held.grant();
        match self.send(&holders(&grant.key)).await {
            Ok(answer) => match self.keeper.is_kept_elsewhere(grant.token, &answer) {
                Some(true) => Err(CallError::Refused(Error::Lost(Loss::KeptElsewhere))),
                known => Ok(known.is_some()),
            },
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
