//! What the program is asked on its command line.

use crate::access::{Access, Login, Question};
use clap::Parser;
use redis_lock_server_options::ServerOptions;

/// The help of `--url`: a Sentinel may be named too, and no database.
const URL: &str = "The server, any node of the cluster, or a Sentinel: `redis://[user:password@]host:port`, or \
    `rediss://` for TLS (`rediss://host:port/#insecure` accepts any certificate)";

/// Checks a server, its replicas, its cluster or what a Sentinel watches for problems that endanger locks.
///
/// It changes nothing. docs/doctor.md lists the permissions that it needs; checks without them are reported as
/// not looked at.
///
/// The exit code is 0 if everything is fine, 1 for warnings, 2 for errors, and 3 if something could not be
/// checked and the rest is fine.
#[derive(Parser)]
#[command(name = "redis-lock-doctor", version)]
#[command(mut_arg("url", |url| url.help(URL).display_order(0)))]
#[command(mut_arg("port", |port| port.display_order(1)))]
pub(crate) struct Arguments {
    /// The login of the servers behind a Sentinel, `user:password`, if it differs from that of the URL.
    #[arg(
        long,
        env = "REDIS_SERVERS_LOGIN",
        hide_env_values = true,
        display_order = 2
    )]
    servers_login: Option<String>,
    /// The Sentinel's name of the primary; without it, all primaries that it watches are checked.
    #[arg(long, display_order = 3)]
    name: Option<String>,
    /// A user of your programs, whose permissions are checked (may be given several times).
    #[arg(long, display_order = 4)]
    user: Vec<String>,
    /// The name of a lock of your programs, for which permissions are checked.
    #[arg(long, default_value = "lock:doctor", display_order = 5)]
    lock: String,
    #[command(flatten)]
    server: ServerOptions,
    /// Prints what is fine, too.
    #[arg(long)]
    pub(crate) all: bool,
    /// Prints JSON.
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
