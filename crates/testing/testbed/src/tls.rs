//! Servers that speak TLS.

use crate::Builder;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Makes an authority (`ca.crt`) and what it vouches for, a server on this machine (`it.crt`, `it.key`), in this
/// folder. False where openssl is not installed.
pub fn certificates(folder: &Path) -> bool {
    let openssl = |words: &str| {
        let mut command = Command::new("openssl");
        let output = command.args(words.split(' ')).current_dir(folder).output();
        output.is_ok_and(|output| output.status.success())
    };
    let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
    fs::write(folder.join("names"), names).expect("a file");
    openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=ca")
        && openssl("req -newkey rsa:2048 -nodes -keyout it.key -out it.csr -subj /CN=localhost")
        && openssl(
            "x509 -req -in it.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out it.crt -days 2 -extfile names",
        )
}

/// A server that speaks TLS at this port too, with the certificates of this folder. Clients need none. A server
/// that knows no TLS does not start.
#[must_use]
pub fn settings(builder: Builder, port: u16, folder: &Path) -> Builder {
    let path = |file: &str| folder.join(file).display().to_string();
    builder
        .config("tls-port", &port.to_string())
        .config("tls-auth-clients", "optional")
        .config("tls-cert-file", &path("it.crt"))
        .config("tls-key-file", &path("it.key"))
        .config("tls-ca-cert-file", &path("ca.crt"))
}
