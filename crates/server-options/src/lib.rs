//! The options by which a program is told how to reach a server, the same for all programs: its address and what
//! TLS takes.

use clap::Args;
use redis::{Client, ClientTlsConfig, ConnectionInfo, IntoConnectionInfo, TlsCertificates};
use std::fs;
use std::path::{Path, PathBuf};

/// How to reach a server, for `#[command(flatten)]`.
#[derive(Args)]
pub struct ServerOptions {
    /// The server, or any node of the cluster: `redis://[user:password@]host:port[/database]`, or `rediss://` for
    /// TLS (`rediss://host:port/#insecure` accepts any certificate).
    #[arg(
        long,
        env = "REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    url: String,
    /// A server on this machine, instead of a URL.
    #[arg(long)]
    port: Option<u16>,
    /// The certificate authority of the servers (PEM); without it, the system's.
    #[arg(long)]
    cacert: Option<PathBuf>,
    /// The client certificate (PEM).
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
}

impl ServerOptions {
    /// Where the server is, and the login, without the certificates.
    ///
    /// # Errors
    /// Says what is wrong with the URL.
    pub fn address(&self) -> Result<ConnectionInfo, String> {
        let info = match self.port {
            Some(port) => ("127.0.0.1", port).into_connection_info(),
            None => self.url.as_str().into_connection_info(),
        };
        info.map_err(|error| error.to_string())
    }

    /// The certificates, where any were given.
    ///
    /// # Errors
    /// Names the file that cannot be read.
    pub fn certificates(&self) -> Result<Option<TlsCertificates>, String> {
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

    /// How to reach the server: the address, and the certificates in it.
    ///
    /// # Errors
    /// Says what is wrong with the URL or the certificates.
    pub fn server(&self) -> Result<ConnectionInfo, String> {
        let Some(certificates) = self.certificates()? else {
            return self.address();
        };
        let client = Client::build_with_tls(self.address()?, certificates);
        let client = client.map_err(|error| error.to_string())?;
        Ok(client.get_connection_info().clone())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Gives TLS its ciphers. To be called before the first connection.
pub fn prepare_tls() {
    // Fails only where there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
