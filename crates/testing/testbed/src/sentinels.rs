//! A primary with replicas, and Sentinels that watch over them.

use super::probe::within;
use super::talk::Expect;
use super::{Builder, Server};
use std::time::Duration;

/// The Sentinels' name of the primary.
pub const NAME: &str = "lock";
/// How long Sentinels may take to come to an agreement.
const PATIENCE: Duration = Duration::from_secs(60);

/// Servers and the Sentinels that watch over them, all on loopback. They end with this guard.
pub struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

/// How Sentinels are set up; see [`Sentinels::builder`].
#[derive(Clone, Debug)]
pub struct Setup {
    replicas: usize,
    sentinels: usize,
    down_after: Duration,
}

impl Setup {
    /// How long a server is silent until a Sentinel takes it for dead; from a second on.
    #[must_use]
    pub fn down_after(mut self, silence: Duration) -> Self {
        self.down_after = silence;
        self
    }

    /// Starts them all.
    #[track_caller]
    pub fn start(self) -> Sentinels {
        self.start_with(|settings| settings)
    }

    /// As [`Self::start`], with settings of their own for the servers.
    #[track_caller]
    pub fn start_with(self, change: impl Fn(Builder) -> Builder) -> Sentinels {
        let primary = change(Server::builder()).start();
        let replicas: Vec<_> = (0..self.replicas)
            .map(|_| primary.replica_with(&change))
            .collect();
        let start = |_| self.sentinel(&change, primary.port());
        let sentinels = (0..self.sentinels).map(start).collect();
        let mut servers = vec![primary];
        servers.extend(replicas);
        let all = Sentinels { servers, sentinels };
        all.wait_until_whole();
        all
    }

    /// One Sentinel. Of the settings of the servers it takes only what concerns its process.
    #[track_caller]
    fn sentinel(&self, change: &impl Fn(Builder) -> Builder, primary: u16) -> Server {
        let quorum = self.sentinels / 2 + 1;
        let down_after = self.down_after.as_millis();
        // Long enough for a replica to follow its new primary, short for a second attempt.
        let failover_timeout = format!("failover-timeout {NAME} {}", down_after + 5000);
        let down_after = format!("down-after-milliseconds {NAME} {down_after}");
        let monitor = format!("monitor {NAME} 127.0.0.1 {primary} {quorum}");
        change(Server::builder())
            .sentinel()
            .config("sentinel", &monitor)
            .config("sentinel", &down_after)
            .config("sentinel", &failover_timeout)
            .start()
    }
}

impl Sentinels {
    /// So many Sentinels over a primary with so many replicas.
    #[track_caller]
    pub fn start(replicas: usize, sentinels: usize) -> Self {
        Self::builder(replicas, sentinels).start()
    }

    /// To set things first.
    pub fn builder(replicas: usize, sentinels: usize) -> Setup {
        Setup {
            replicas,
            sentinels,
            down_after: Duration::from_millis(1500),
        }
    }

    /// The servers: the one that was the first primary, then its replicas. A server keeps its
    /// number whatever it becomes.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// A server.
    pub fn server(&self, number: usize) -> &Server {
        &self.servers[number]
    }

    /// A server, to restart it or to kill it.
    pub fn server_mut(&mut self, number: usize) -> &mut Server {
        &mut self.servers[number]
    }

    /// The servers and the Sentinels, to restart or to kill them.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Server> {
        self.servers.iter_mut().chain(&mut self.sentinels)
    }

    /// The Sentinels.
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// A Sentinel, to restart it or to kill it.
    pub fn sentinel_mut(&mut self, number: usize) -> &mut Server {
        &mut self.sentinels[number]
    }

    /// Where the primary is, by `SENTINEL GET-MASTER-ADDR-BY-NAME` of the first Sentinel that
    /// answers.
    #[track_caller]
    pub fn primary_address(&self) -> String {
        let mut answers = self.sentinels.iter().filter_map(address_by);
        answers.next().expect("a Sentinel that answers")
    }

    /// The number of the server that the Sentinels call the primary.
    #[track_caller]
    pub fn primary(&self) -> usize {
        let address = self.primary_address();
        let mut servers = self.servers.iter();
        let number = servers.position(|server| address_of(server) == address);
        number.unwrap_or_else(|| panic!("the Sentinels name a stranger: {address}"))
    }

    /// `SENTINEL FAILOVER` alone: a failover without a fault, as if there was one. For some seconds the
    /// old primary takes writes as well, and then drops them. Gives the number of the new primary.
    #[track_caller]
    pub fn fail_over(&self) -> usize {
        let before = self.primary();
        let mut order = redis::cmd("SENTINEL");
        order.arg("FAILOVER").arg(NAME);
        // Refused while the last failover is not over, or a replica has not been heard of lately.
        let taken = || {
            let mut sentinels = self.sentinels.iter();
            sentinels.any(|sentinel| sentinel.ask(&order).is_some())
        };
        within(PATIENCE, taken, "a Sentinel to begin a failover");
        self.wait_for_primary_other_than(before)
    }

    /// Waits until all Sentinels that are up name another primary than this one, and until that
    /// one calls itself so. Gives its number.
    #[track_caller]
    pub fn wait_for_primary_other_than(&self, before: usize) -> usize {
        let old = address_of(&self.servers[before]);
        let agreed = || {
            let mut up = self.sentinels.iter().filter(|sentinel| sentinel.is_up());
            let Some(new) = up.next().and_then(address_by) else {
                return false;
            };
            new != old && up.all(|sentinel| address_by(sentinel).as_ref() == Some(&new))
        };
        within(PATIENCE, agreed, "the Sentinels to name another primary");
        let new = self.primary();
        let promoted = || tells(&self.servers[new], "role:master");
        within(PATIENCE, promoted, "the new primary to be one");
        new
    }

    /// Waits until each Sentinel that is up knows all others and all servers, each server that is
    /// up is sound in its eyes, and each replica has its link.
    #[track_caller]
    pub fn wait_until_whole(&self) {
        for sentinel in self.sentinels.iter().filter(|sentinel| sentinel.is_up()) {
            let is_content = || self.is_content(sentinel);
            within(PATIENCE, is_content, "a Sentinel to know all");
        }
        for server in self.servers.iter().filter(|server| server.is_up()) {
            let linked = || tells(server, "role:master") || tells(server, "master_link_status:up");
            within(PATIENCE, linked, "a replica to have its link");
        }
    }

    fn is_content(&self, sentinel: &Server) -> bool {
        let tell = |what: &str| sentinel.ask(redis::cmd("SENTINEL").arg(what).arg(NAME));
        let Some(primary) = tell("MASTER").map(Expect::fields) else {
            return false;
        };
        let number = |field: &str| {
            let text = primary.get(field).cloned().map(Expect::text);
            text.and_then(|text| text.parse::<usize>().ok())
        };
        let replicas = tell("REPLICAS").map(Expect::items).unwrap_or_default();
        let up = self.servers.iter().filter(|server| server.is_up()).count();
        let is_sound = |flags: &str| !flags.contains("down") && !flags.contains("disconnected");
        let sound = replicas
            .into_iter()
            .filter(|replica| is_sound(&replica.clone().fields()["flags"].clone().text()));
        is_sound(&primary["flags"].clone().text())
            && number("num-slaves") == Some(self.servers.len() - 1)
            && number("num-other-sentinels") == Some(self.sentinels.len() - 1)
            && sound.count() + 1 >= up
    }
}

fn address_of(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// The primary's address, in the eyes of a Sentinel.
fn address_by(sentinel: &Server) -> Option<String> {
    let question = redis::cmd("SENTINEL")
        .arg("GET-MASTER-ADDR-BY-NAME")
        .arg(NAME)
        .to_owned();
    let parts = sentinel.ask(&question)?.items();
    let parts: Vec<_> = parts.into_iter().map(Expect::text).collect();
    Some(parts.join(":"))
}

/// Whether `INFO replication` has this line.
fn tells(server: &Server, line: &str) -> bool {
    let info = server.ask(redis::cmd("INFO").arg("replication"));
    info.is_some_and(|info| info.text().lines().any(|has| has == line))
}
