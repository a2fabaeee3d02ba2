//! The command line options for reaching a server, which are the same for all programs: its address and TLS files.

use crate::Target;
use clap::Args;
use redis::{Client, ClientTlsConfig, IntoConnectionInfo, TlsCertificates};
use std::fs;
use std::path::{Path, PathBuf};

/// How to reach a server, for `#[command(flatten)]`.
#[derive(Args)]
pub struct ServerOptions {
    /// The server, or any node of the cluster: `redis://[user:password@]host:port[/database]`, or `rediss://` for
    /// TLS (`rediss://host:port/#insecure` accepts any certificate).
    #[arg(
        long,
        global = true,
        env = "REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    url: String,
    /// A server on this machine, in the place of a URL.
    #[arg(long, global = true)]
    port: Option<u16>,
    /// The authority that the servers' certificates are checked against (PEM); without it, the system's.
    #[arg(long, global = true)]
    cacert: Option<PathBuf>,
    /// The certificate to come with (PEM).
    #[arg(long, global = true, requires = "key")]
    cert: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long, global = true, requires = "cert")]
    key: Option<PathBuf>,
}

impl ServerOptions {
    /// How to reach the server.
    pub fn target(&self) -> Result<Target, String> {
        // Provides the ciphers for TLS. Fails only if they are provided already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let info = match self.port {
            Some(port) => ("127.0.0.1", port).into_connection_info(),
            None => self.url.as_str().into_connection_info(),
        };
        let info = info.map_err(|error| error.to_string())?;
        let client_tls = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(ClientTlsConfig {
                client_cert: read(cert)?,
                client_key: read(key)?,
            }),
            _ => None,
        };
        let root_cert = self.cacert.as_deref().map(read).transpose()?;
        if client_tls.is_none() && root_cert.is_none() {
            return Ok(Target::new(info));
        }
        let certificates = TlsCertificates {
            client_tls,
            root_cert,
        };
        let client = Client::build_with_tls(info, certificates);
        let client = client.map_err(|error| error.to_string())?;
        Ok(Target::new(client.get_connection_info().clone()))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
