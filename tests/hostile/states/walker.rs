//! A connection of the walk.

use super::arena::{Arena, Client};
use super::peer::Peer;
use super::script::Names;
use std::fmt;

pub(crate) struct Walker {
    pub(crate) peer: Peer,
    pub(crate) names: Names,
    /// No other has its owner.
    pub(crate) alone: bool,
    /// It has ended, or is about to: it sends no more.
    pub(crate) leaves: bool,
    /// What it sent last cannot be read. Redis 8.2 does not close the connection where that comes
    /// behind a call that waited, whichever it was.
    pub(crate) spoilt: bool,
}

impl Walker {
    pub(crate) fn new(arena: &mut Arena, number: usize) -> Self {
        let peer = Peer::of(&arena.server);
        // Every fifth has the owner of the one before.
        let me = format!("w-{}", number - usize::from(number.is_multiple_of(5)));
        let mut user = redis::cmd("ACL");
        user.arg("SETUSER").arg(&me).arg("on");
        user.arg(format!(">{me}")).arg("~*").arg("&*").arg("+@all");
        arena.ask(&[user]).remove(0).expect("a user");
        Self {
            names: Names {
                key: String::new(),
                me,
                token: 1,
                address: peer.address.clone(),
                id: String::new(),
                listener: arena.listener.clone(),
            },
            peer,
            alone: !matches!(number % 5, 0 | 4),
            leaves: false,
            spoilt: false,
        }
    }

    pub(crate) fn owner(&self) -> Vec<u8> {
        self.names.me.clone().into_bytes()
    }

    /// Sends the command by which it is seen that all before it has been run.
    pub(crate) fn say_last(&mut self) {
        if !self.leaves {
            self.peer.send(&self.names.packed("ECHO end", &[]));
        }
    }

    /// Whether the server has run all that was sent.
    pub(crate) fn is_done(&self, client: Option<&Client>) -> bool {
        match client {
            _ if self.spoilt => true,
            Some(client) => client.is_at("echo") || client.closes(),
            None => self.peer.ended,
        }
    }
}

impl fmt::Display for Walker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.names.me, self.names.address)
    }
}
