//! What the program is asked on its command line.

use crate::access::{Access, Login, Question};
use clap::Parser;
use redis_lock_server_options::ServerOptions;

/// The help of `--url`: a Sentinel may be named too, and no database.
const URL: &str = "The server, any node of the cluster, or a Sentinel: `redis://[user:password@]host:port`, or \
    `rediss://` for TLS (`rediss://host:port/#insecure` accepts any certificate)";

/// Looks at a server, its replicas, its cluster or what a Sentinel watches, and tells what will hurt locks.
///
/// It changes nothing. The rights that it needs are in docs/doctor.md; what it may not see is listed as not
/// looked at.
///
/// It ends with 0 when all is fine, 1 when there are warnings, 2 when there are errors, and 3 when it could
/// not look (at all; or at something, and the rest is fine).
#[derive(Parser)]
#[command(name = "redis-lock-doctor", version)]
#[command(mut_arg("url", |url| url.help(URL).display_order(0)))]
#[command(mut_arg("port", |port| port.display_order(1)))]
pub(crate) struct Arguments {
    /// The login of the servers behind a Sentinel, `user:password`, where it is not the one of the URL.
    #[arg(
        long,
        env = "REDIS_SERVERS_LOGIN",
        hide_env_values = true,
        display_order = 2
    )]
    servers_login: Option<String>,
    /// What the Sentinel calls the primary; without it, all that it watches are looked at.
    #[arg(long, display_order = 3)]
    name: Option<String>,
    /// A user by whom programs take locks: its rights are judged (may be given several times).
    #[arg(long, display_order = 4)]
    user: Vec<String>,
    /// A name of a lock, as your programs have them: rights are judged for it.
    #[arg(long, default_value = "lock:doctor", display_order = 5)]
    lock: String,
    #[command(flatten)]
    server: ServerOptions,
    /// Tells of what is fine too, in full.
    #[arg(long)]
    pub(crate) all: bool,
    /// Answers in JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Arguments {
    /// How to reach the servers, and what is asked of them.
    pub(crate) fn access(&self) -> Result<Access, String> {
        let given = self.server.address()?;
        let login = |text: &String| {
            let (user, password) = text
                .split_once(':')
                .ok_or("--servers-login takes user:password")?;
            Ok::<_, String>(Login {
                user: Some(user.to_owned()).filter(|user| !user.is_empty()),
                password: Some(password.to_owned()),
            })
        };
        Ok(Access {
            given,
            servers_login: self.servers_login.as_ref().map(login).transpose()?,
            certificates: self.server.certificates()?,
            question: Question {
                sentinel_name: self.name.clone(),
                users: self.user.clone(),
                lock: self.lock.clone(),
            },
        })
    }
}
