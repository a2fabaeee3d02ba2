//! A state of everything: servers, attempts, and what is needed to judge them.
//!
//! There are no messages in it. What was sent follows from how far an attempt has come, and any of
//! that may arrive at any moment, so a message needs no place of its own. A reply is heard when it is
//! sent, or never: what a client does with it later, it could do later anyway.

use std::hash::{Hash, Hasher};

pub(crate) const MOST_SERVERS: usize = 5;
pub(crate) const MOST_ATTEMPTS: usize = 6;

/// A token, or 0 for none. Only its rank among the tokens of a state means anything.
pub(crate) type Token = u8;

/// In [`Server::heard`]: a grant was heard of and is gone for good.
pub(crate) const GONE: Token = u8::MAX;

/// The holder of the lock of a server.
pub(crate) mod owner {
    /// Nobody.
    pub(crate) const FREE: u8 = 0;
    /// An attempt that is over, and none of whose messages matters to this grant.
    pub(crate) const OVER: u8 = 1;

    /// The attempt of this number.
    #[expect(clippy::cast_possible_truncation, reason = "there are six at most")]
    pub(crate) const fn attempt(number: usize) -> u8 {
        number as u8 + 2
    }
}

/// A server, and what each attempt knows of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Server {
    /// The token clock: the highest token seen.
    pub(crate) last: Token,
    pub(crate) owner: u8,
    /// The token of the current grant.
    pub(crate) token: Token,
    /// The token that the time has certainly passed, in case the memory is lost.
    pub(crate) passed: Token,
    /// Has round 2 been here, and started the lease anew?
    pub(crate) renewed: bool,
    /// Crashed, and waiting for the leases that it had given to end.
    pub(crate) away: bool,
    /// The grant that each attempt has heard of.
    pub(crate) heard: [Token; MOST_ATTEMPTS],
    /// A bit for each attempt that has heard that this server raised.
    pub(crate) acknowledged: u8,
    /// A bit for each attempt that has had an answer in round 1, where each message comes once.
    pub(crate) answered: u8,
}

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    #[default]
    NotBegun,
    /// Round 1.
    Asking,
    /// Round 2.
    Raising,
    /// It has the lock, and believes so. With a register: nobody else has got it since it began.
    Held,
    /// It had the lock; it may not know that this is over.
    Past,
    /// Over, as far as its client is concerned. Its messages may still arrive.
    Over,
}

/// An attempt of a client to take the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attempt {
    pub(crate) phase: Phase,
    /// T, from round 2 on.
    pub(crate) token: Token,
    /// The highest token that any attempt had returned with when this one began.
    pub(crate) before: Token,
}

/// Everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct State {
    pub(crate) servers: [Server; MOST_SERVERS],
    pub(crate) attempts: [Attempt; MOST_ATTEMPTS],
    /// The highest token that any attempt has returned with.
    pub(crate) highest: Token,
    /// The highest token that the register has taken.
    pub(crate) register: Token,
    /// How many requests were taken unheard, where these are numbered.
    pub(crate) unheard: u8,
    /// The cases that the last step showed: bits of [`seen`].
    pub(crate) seen: u8,
}

/// The cases that a step can show.
pub(crate) mod seen {
    /// An attempt returned with the lock.
    pub(crate) const LOCKED: u8 = 1;
    /// It began after another had returned with as high a token.
    pub(crate) const NOT_HIGHER: u8 = 2;
    /// It has the token of another one.
    pub(crate) const SAME_TOKEN: u8 = 4;
    /// Another one has the lock, too.
    pub(crate) const OVERLAP: u8 = 8;
    /// It returned after one with a higher token.
    pub(crate) const LOWER_LATER: u8 = 16;
    /// The register refused a holder whom nobody had disturbed.
    pub(crate) const HOLDER_REFUSED: u8 = 32;
    /// The register will refuse a former holder.
    pub(crate) const STALE_REFUSED: u8 = 64;
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        const SERVER: usize = 8 + MOST_ATTEMPTS;
        const ATTEMPTS: usize = MOST_SERVERS * SERVER;
        const REST: usize = ATTEMPTS + 3 * MOST_ATTEMPTS;
        let mut bytes = [0; REST + 4];
        for (server, bytes) in self.servers.iter().zip(bytes.chunks_exact_mut(SERVER)) {
            bytes[..8].copy_from_slice(&[
                server.last,
                server.owner,
                server.token,
                server.passed,
                u8::from(server.renewed),
                u8::from(server.away),
                server.acknowledged,
                server.answered,
            ]);
            bytes[8..].copy_from_slice(&server.heard);
        }
        let places = bytes[ATTEMPTS..REST].chunks_exact_mut(3);
        for (attempt, bytes) in self.attempts.iter().zip(places) {
            bytes.copy_from_slice(&[attempt.phase as u8, attempt.token, attempt.before]);
        }
        bytes[REST..].copy_from_slice(&[self.highest, self.register, self.unheard, self.seen]);
        hasher.write(&bytes);
    }
}

impl State {
    /// How many servers the attempt counts on.
    pub(crate) fn acknowledgements(&self, attempt: usize) -> usize {
        let counts = |server: &&Server| server.has_acknowledged(attempt);
        self.servers.iter().filter(counts).count()
    }

    /// Changes every token by `change`; 0 and [`GONE`] are no tokens.
    pub(crate) fn map_tokens(&mut self, mut change: impl FnMut(Token) -> Token) {
        let mut apply = |token: &mut Token| {
            if *token != 0 && *token != GONE {
                *token = change(*token);
            }
        };
        for server in &mut self.servers {
            apply(&mut server.last);
            apply(&mut server.token);
            apply(&mut server.passed);
            server.heard.iter_mut().for_each(&mut apply);
        }
        for attempt in &mut self.attempts {
            apply(&mut attempt.token);
            apply(&mut attempt.before);
        }
        apply(&mut self.highest);
        apply(&mut self.register);
    }
}
