//! The setting of a search: how many take part, what may go wrong, and which rule is broken.

/// One way to set the model up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) servers: usize,
    pub(crate) clients: usize,
    /// How often each client tries.
    pub(crate) attempts: usize,
    pub(crate) leases: Leases,
    pub(crate) memory: Memory,
    pub(crate) network: Network,
    /// Is there a register that takes no lower token, and do holders write to it?
    pub(crate) register: bool,
    /// How many requests may be taken without any attempt's hearing of it while it can still come
    /// back; none: any number. See [`crate::normal`].
    pub(crate) unheard: Option<u8>,
    pub(crate) weakening: Option<Weakening>,
}

/// When a server's lease may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leases {
    /// At any moment: no clock can be trusted.
    AnyMoment,
    /// Where round 2 has been, not before the holder itself takes it for ended there.
    AfterTrust,
}

/// The memory that a server keeps in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Everything. A crash is then a time in which messages wait or are lost.
    Kept,
    /// Nothing: the locks are gone, and the token clock continues from the time alone.
    Lost {
        /// Which tokens the time has passed when the server is back.
        passed: Passed,
        /// Does it answer nothing until the leases that it had given have ended?
        stays_away: bool,
    },
}

impl Memory {
    /// It is lost, and the time has passed these tokens when the server is back at once.
    pub(crate) const fn lost(passed: Passed) -> Self {
        Self::Lost {
            passed,
            stays_away: false,
        }
    }
}

/// Which of its former tokens a server's time has passed, for certain, when it returns with
/// nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// Those to which it acknowledged a raise.
    Raised,
    /// Those that it granted itself, before any raise.
    Granted,
    /// None.
    Nothing,
}

/// The possible faults of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// Each arrives at any moment after it was sent, any number of times, in any order, or never.
    Unreliable,
    /// Each arrives once, in any order, and nothing else goes wrong either.
    Reliable,
}

/// A rule of the protocol that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakening {
    /// A majority of grants is the lock, with the highest token of them.
    NoRaise,
    /// A server whose grant is above T counts as one that was raised to T.
    LowRaiseCounts,
    /// A raise lifts the grant, and not the server's token clock.
    RaiseLeavesClock,
    /// A client's attempts share one owner.
    OwnersReused,
    /// T is the highest token of one server fewer than a majority.
    TokenOfFewer,
    /// Both of these.
    TokenOfFewerAndLowRaiseCounts,
    /// A holder continues counting on a server that has lost its grant.
    LossIgnored,
    /// One server fewer than a majority is enough, in both rounds.
    SmallerQuorum,
}

impl Setting {
    /// Nothing can be trusted but the servers' memory.
    pub(crate) const fn new(servers: usize, clients: usize, attempts: usize) -> Self {
        Self {
            servers,
            clients,
            attempts,
            leases: Leases::AnyMoment,
            memory: Memory::Kept,
            network: Network::Unreliable,
            register: false,
            unheard: None,
            weakening: None,
        }
    }

    /// Messages arrive once each.
    pub(crate) const fn reliable(mut self) -> Self {
        self.network = Network::Reliable;
        self
    }

    /// Leases end after the holder's trust.
    pub(crate) const fn trusted(mut self) -> Self {
        self.leases = Leases::AfterTrust;
        self
    }

    pub(crate) const fn memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    pub(crate) const fn with_register(mut self) -> Self {
        self.register = true;
        self
    }

    /// So many requests may be taken unheard.
    pub(crate) const fn unheard(mut self, most: u8) -> Self {
        self.unheard = Some(most);
        self
    }

    pub(crate) const fn weakened(mut self, weakening: Weakening) -> Self {
        self.weakening = Some(weakening);
        self
    }

    pub(crate) const fn all_attempts(&self) -> usize {
        self.clients * self.attempts
    }

    /// How many servers must grant and acknowledge.
    pub(crate) fn quorum(&self) -> usize {
        let majority = self.servers / 2 + 1;
        match self.weakening {
            Some(Weakening::SmallerQuorum) => majority - 1,
            _ => majority,
        }
    }

    /// Of how many grants T must be the highest.
    pub(crate) fn token_of(&self) -> usize {
        match self.weakening {
            Some(Weakening::TokenOfFewer | Weakening::TokenOfFewerAndLowRaiseCounts) => {
                self.servers / 2
            }
            _ => self.servers,
        }
    }

    pub(crate) const fn low_raise_counts(&self) -> bool {
        matches!(
            self.weakening,
            Some(Weakening::LowRaiseCounts | Weakening::TokenOfFewerAndLowRaiseCounts)
        )
    }

    pub(crate) fn is(&self, weakening: Weakening) -> bool {
        self.weakening == Some(weakening)
    }

    /// The time has passed these tokens when a server returns with nothing else.
    pub(crate) fn passes(&self, tokens: Passed) -> bool {
        matches!(self.memory, Memory::Lost { passed, .. } if passed == tokens)
    }

    /// The number by which servers know the owner of an attempt.
    pub(crate) fn owner_of(&self, attempt: usize) -> usize {
        if self.is(Weakening::OwnersReused) {
            attempt / self.attempts * self.attempts
        } else {
            attempt
        }
    }
}
