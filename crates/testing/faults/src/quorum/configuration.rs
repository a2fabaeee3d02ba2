//! The configurations: what may become of the memory of servers that are killed.

use super::event::Way;
use std::time::Duration;
use testbed::{Builder, Server};

/// How far a server's tokens are put ahead of time.
pub(crate) const AHEAD: Duration = Duration::from_millis(600);

/// How far a raise may put them ahead: what is put ahead, and what of it is raised elsewhere.
pub(crate) const MOST_AHEAD: Duration = Duration::from_millis(900);

/// A way to run the servers.
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    /// A server that is killed returns with all that it has acknowledged, or else with nothing.
    pub(crate) keeps: bool,
    pub(crate) way: Way,
    pub(crate) length: Duration,
}

/// By persistence, and in the end with a lock that is known to be wrong.
pub(crate) fn all() -> Vec<Setup> {
    let setup = |name, keeps, way| Setup {
        name,
        keeps,
        way,
        length: Duration::ZERO,
    };
    vec![
        setup("kept-memory", true, Way::Quorum),
        setup("lost-memory", false, Way::Quorum),
        setup("go-kept-memory", true, Way::Go),
        setup("go-lost-memory", false, Way::Go),
        setup("without-raise", true, Way::WithoutRaise),
    ]
}

impl Setup {
    pub(crate) fn settings(&self) -> Builder {
        let lead = MOST_AHEAD.as_millis().to_string();
        let settings = Server::builder().config("lock.max-token-lead-ms", &lead);
        if self.keeps {
            settings
                .config("appendonly", "yes")
                .config("appendfsync", "always")
        } else {
            settings
        }
    }

    /// In milliseconds, the shortest and the longest lease. A server renews none below one second.
    pub(crate) fn leases(&self) -> (u64, u64) {
        match self.way {
            Way::Quorum | Way::Go => (1000, 1500),
            Way::WithoutRaise => (300, 800),
        }
    }

    pub(crate) fn longest_lease(&self) -> Duration {
        Duration::from_millis(self.leases().1)
    }

    /// How long a holder that is stopped keeps its lock at most: with sessions, until the servers take its silence
    /// for the end, at most two seconds after a second, and a lease more.
    pub(crate) fn longest_hold(&self) -> Duration {
        match self.way {
            Way::Quorum | Way::Go => self.longest_lease() + Duration::from_secs(3),
            Way::WithoutRaise => self.longest_lease(),
        }
    }

    /// How long a server that was killed is away at least. One that has lost its memory must not come
    /// back before every lease that it had granted or renewed is over, or somebody could be granted
    /// what another still holds; nor before its clock has passed every token that it had shown, or it
    /// could grant lower ones.
    pub(crate) fn shortest_absence(&self) -> Duration {
        if self.keeps {
            Duration::from_millis(20)
        } else {
            self.longest_lease().max(MOST_AHEAD) + Duration::from_millis(50)
        }
    }

    /// Under which name restarts are counted.
    pub(crate) fn restarts(&self) -> &'static str {
        if self.keeps {
            "restarts with all memory"
        } else {
            "restarts with no memory"
        }
    }

    /// It is there to be found out.
    pub(crate) fn is_wrong(&self) -> bool {
        self.way == Way::WithoutRaise
    }
}
