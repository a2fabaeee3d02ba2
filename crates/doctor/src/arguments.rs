//! What the program is asked on its command line.

use crate::access::{Access, Login, Question};
use clap::Parser;
use redis::{ClientTlsConfig, ConnectionInfo, IntoConnectionInfo, TlsCertificates};
use std::fs;
use std::path::{Path, PathBuf};

/// Looks at a server, its replicas, its cluster or what a Sentinel watches, and tells what will hurt locks.
///
/// It changes nothing. The rights that it needs are in docs/doctor.md; what it may not see is listed as not
/// looked at.
///
/// It ends with 0 when all is fine, 1 when there are warnings, 2 when there are errors, and 3 when it could
/// not look (at all; or at something, and the rest is fine).
#[derive(Parser)]
#[command(name = "redis-lock-doctor", version)]
pub(crate) struct Arguments {
    /// The server, any node of the cluster, or a Sentinel: `redis://[user:password@]host:port`, or `rediss://`
    /// for TLS (`rediss://host:port/#insecure` accepts any certificate).
    #[arg(
        long,
        env = "REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    url: String,
    /// A server on this machine, in the place of a URL.
    #[arg(long)]
    port: Option<u16>,
    /// The login of the servers behind a Sentinel, `user:password`, where it is not the one of the URL.
    #[arg(long, env = "REDIS_SERVERS_LOGIN", hide_env_values = true)]
    servers_login: Option<String>,
    /// What the Sentinel calls the primary; without it, all that it watches are looked at.
    #[arg(long)]
    name: Option<String>,
    /// A user by whom programs take locks: its rights are judged (may be given several times).
    #[arg(long)]
    user: Vec<String>,
    /// A name of a lock, as your programs have them: rights are judged for it.
    #[arg(long, default_value = "lock:doctor")]
    lock: String,
    /// The authority that the servers' certificates are checked against (PEM); without it, the system's.
    #[arg(long)]
    cacert: Option<PathBuf>,
    /// The certificate to come with (PEM).
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
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
        let given = self.given()?;
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
            certificates: self.certificates()?,
            question: Question {
                sentinel_name: self.name.clone(),
                users: self.user.clone(),
                lock: self.lock.clone(),
            },
        })
    }

    fn given(&self) -> Result<ConnectionInfo, String> {
        let info = match self.port {
            Some(port) => ("127.0.0.1", port).into_connection_info(),
            None => self.url.as_str().into_connection_info(),
        };
        info.map_err(|error| error.to_string())
    }

    fn certificates(&self) -> Result<Option<TlsCertificates>, String> {
        let client_tls = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(ClientTlsConfig {
                client_cert: read(cert)?,
                client_key: read(key)?,
            }),
            _ => None,
        };
        let root_cert = self.cacert.as_deref().map(read).transpose()?;
        let given = client_tls.is_some() || root_cert.is_some();
        Ok(given.then_some(TlsCertificates {
            client_tls,
            root_cert,
        }))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
