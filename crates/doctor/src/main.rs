//! Checks running servers with the module for problems that endanger locks. Reports what it found, why that matters and
//! the line that fixes it. `docs/doctor.md` describes each check.

mod ask;
mod examine;
mod facts;
mod files;
mod finding;
mod judge;
mod look;
mod report;
mod sessions;
mod users;

use clap::Parser;
use redis_lock_tool::{ServerOptions, Target, end, json};
use report::Report;
use std::process::ExitCode;

/// The help of `--url`: a Sentinel may be named too, and no database.
const URL: &str = "The server, any node of the cluster, or a Sentinel: `redis://[user:password@]host:port`, or \
    `rediss://` for TLS (`rediss://host:port/#insecure` accepts any certificate)";

/// Checks a server, its replicas, its cluster or what a Sentinel watches for problems that endanger locks.
///
/// It changes nothing. docs/doctor.md lists the permissions that it needs; checks without them are reported as
/// not checked.
///
/// The exit code is 0 if everything is fine, even with advice, 1 for warnings, 2 for errors, and 3 if nothing could be
/// checked, or something could not be and the rest is fine.
#[derive(Parser)]
#[command(name = "redis-lock-doctor", version)]
#[command(mut_arg("url", |url| url.help(URL)))]
struct Arguments {
    #[command(flatten)]
    server: ServerOptions,
    /// The login of the servers behind a Sentinel, `user:password`, if it differs from that of the URL.
    #[arg(long, env = "REDIS_SERVERS_LOGIN", hide_env_values = true)]
    servers_login: Option<String>,
    /// The Sentinel's name of the primary; without it, all primaries that it watches are checked.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// A user of your programs, whose permissions are checked (may be given several times).
    #[arg(long)]
    pub(crate) user: Vec<String>,
    /// The name of a lock of your programs, for which permissions are checked.
    #[arg(long, default_value = "lock:doctor")]
    pub(crate) lock: String,
    /// Also prints what is fine.
    #[arg(long)]
    pub(crate) all: bool,
    /// Prints JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How to reach the servers, and the options.
pub(crate) struct Access {
    pub(crate) given: Target,
    /// The given server with the login of the servers behind a Sentinel.
    pub(crate) servers: Target,
    pub(crate) asked: Arguments,
}

impl Arguments {
    fn access(self) -> Result<Access, String> {
        let target = self.server.target()?;
        let given = target.with_login(target.login());
        let servers = match &self.servers_login {
            None => given.clone(),
            Some(login) => {
                let (user, password) = login
                    .split_once(':')
                    .ok_or("--servers-login takes user:password")?;
                let user = Some(user).filter(|user| !user.is_empty());
                given.with_login((user, Some(password)))
            }
        };
        Ok(Access {
            given,
            servers,
            asked: self,
        })
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (as_json, all) = (arguments.json, arguments.all);
    let looked = arguments.access().and_then(|access| look::look(&access));
    let report = match &looked {
        Ok(facts) => Report::new(facts, judge::judge(facts)),
        Err(why) => Report::nothing(why.clone()),
    };
    let text = match report.error {
        _ if as_json => json(&report),
        Some(_) => String::new(),
        None => report.text(all),
    };
    let missing = report.error.as_ref();
    let missing = missing.map(|why| format!("nothing could be checked: {why}"));
    end("redis-lock-doctor", &text, missing.as_deref(), report.exit)
}
