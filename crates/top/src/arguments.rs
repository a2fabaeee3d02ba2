//! What the program is asked on its command line.

use clap::Parser;
use redis::{Client, ClientTlsConfig, ConnectionInfo, IntoConnectionInfo, TlsCertificates};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Shows the locks of a server, or of all primaries of a cluster.
#[derive(Parser)]
#[command(name = "redis-lock-top", version)]
pub(crate) struct Arguments {
    /// The server, or any node of the cluster: `redis://[user:password@]host:port[/database]`, or `rediss://` for
    /// TLS (`rediss://host:port/#insecure` accepts any certificate).
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
    /// The authority that the servers' certificates are checked against (PEM); without it, the system's.
    #[arg(long)]
    cacert: Option<PathBuf>,
    /// The certificate to come with (PEM).
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
    /// How many milliseconds pass between two snapshots.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..))]
    every: u64,
}

impl Arguments {
    /// How to reach the server.
    pub(crate) fn server(&self) -> Result<ConnectionInfo, String> {
        let given = match self.port {
            Some(port) => ("127.0.0.1", port).into_connection_info(),
            None => self.url.as_str().into_connection_info(),
        };
        let Some(certificates) = self.certificates()? else {
            return given.map_err(|error| error.to_string());
        };
        let client = given.and_then(|given| Client::build_with_tls(given, certificates));
        let client = client.map_err(|error| error.to_string())?;
        Ok(client.get_connection_info().clone())
    }

    /// The time between two snapshots.
    pub(crate) fn every(&self) -> Duration {
        Duration::from_millis(self.every)
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
