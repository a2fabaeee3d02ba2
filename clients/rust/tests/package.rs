//! The crate as it is published: packed, unpacked far from this workspace, and used by a project that has
//! nothing else. Its programs are the first screen of the README, its metrics, and one that speaks TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::server::Port;
use testbed::{Server, tls};

const MANIFEST: &str = r#"
[package]
name = "outside"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
redis-lock-client = { path = "CRATE", features = ["opentelemetry", "tls-rustls"] }
opentelemetry = { version = "0.33", default-features = false, features = ["metrics"] }
redis = { version = "1.8", default-features = false }
rustls = { version = "0.23", default-features = false, features = ["ring", "std", "tls12"] }
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
"#;

const TLS: &str = r#"
use redis_lock_client::{Error, Locks};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Error> {
    rustls::crypto::ring::default_provider().install_default().expect("a provider");
    let arguments: Vec<String> = std::env::args().collect();
    let certificates = redis::TlsCertificates {
        client_tls: None,
        root_cert: Some(std::fs::read(&arguments[2]).expect("a certificate")),
    };
    let client = redis::Client::build_with_tls(arguments[1].as_str(), certificates);
    let locks = Locks::new(&client.expect("an address"), "tls");
    let guard = locks.lock("lock:tls").acquire().await?;
    let other = locks.clone();
    let waiting = tokio::spawn(async move {
        other.lock("lock:tls").wait(Duration::from_secs(20)).acquire().await
    });
    guard.check().await?;
    guard.release().await?;
    let next = waiting.await.expect("a task")?;
    println!("held over TLS, then handed on");
    next.release().await?;
    locks.close().await
}
"#;

fn done(command: &mut Command) -> String {
    let output = command.output().expect("a program");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(folder);
    command
}

/// The packed crate, unpacked.
fn packed(folder: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = folder.join("packing");
    let mut pack = cargo(here);
    pack.args([
        "package",
        "--quiet",
        "--no-verify",
        "--allow-dirty",
        "--package",
        "redis-lock-client",
    ]);
    done(pack.arg("--target-dir").arg(&target));
    let name = concat!("redis-lock-client-", env!("CARGO_PKG_VERSION"));
    let file = target.join("package").join(format!("{name}.crate"));
    done(
        Command::new("tar")
            .arg("-xzf")
            .arg(file)
            .current_dir(folder),
    );
    let unpacked = folder.join(name);
    for file in ["README.md", "LICENSE", "CHANGELOG.md", "src/lib.rs"] {
        assert!(unpacked.join(file).is_file(), "{file}");
    }
    let manifest = fs::read_to_string(unpacked.join("Cargo.toml")).expect("a manifest");
    assert!(!manifest.contains("workspace"), "{manifest}");
    assert!(!manifest.contains("testbed"), "{manifest}");
    unpacked
}

/// A program of the README, with this server's address.
fn of_readme(number: usize, server: &Server) -> String {
    let readme = include_str!("../README.md");
    let code = readme.split("```rust\n").nth(number).expect("a program");
    let code = code.split("```").next().expect("its end");
    let address = "redis://127.0.0.1/";
    assert!(code.contains(address));
    code.replace(address, &format!("redis://127.0.0.1:{}/", server.port()))
}

/// The lines of the README that measure, made a program.
fn measured(server: &Server) -> String {
    let lines = of_readme(4, server);
    format!(
        r#"use redis_lock_client::{{Error, Locks}};

#[tokio::main]
async fn main() -> Result<(), Error> {{
    {lines}
    locks.lock("lock:a").acquire().await?.release().await?;
    println!("measured");
    Ok(())
}}"#
    )
}

#[test]
#[ignore = "builds the packed crate: run.sh does"]
fn the_packed_crate_is_used_outside() {
    let folder = tempfile::tempdir().expect("a folder");
    let unpacked = packed(folder.path());
    let project = folder.path().join("outside");
    fs::create_dir_all(project.join("src/bin")).expect("a folder");
    let manifest = MANIFEST.replace("CRATE", &unpacked.display().to_string());
    let server = Server::start();
    let files = [
        ("Cargo.toml", manifest.as_str()),
        ("src/main.rs", &of_readme(1, &server)),
        ("src/bin/metrics.rs", &measured(&server)),
        ("src/bin/tls.rs", TLS),
    ];
    for (file, text) in files {
        fs::write(project.join(file), text).expect("a file");
    }
    // Built once, and again only where something has changed.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside");
    let run = |program: &str| {
        let mut run = cargo(&project);
        run.env("CARGO_PROFILE_DEV_DEBUG", "0");
        run.args(["run", "--quiet", "--bin", program, "--target-dir"])
            .arg(&target);
        run
    };
    let told = done(&mut run("outside"));
    assert!(told.starts_with("held, fence with 1"), "{told}");
    assert_eq!(done(&mut run("metrics")), "measured\n");
    over_tls(folder.path(), run("tls"));
}

fn over_tls(folder: &Path, mut run: Command) {
    let Some(server) = tls_server(folder) else {
        println!("this server does not speak TLS, or there is no openssl: left out");
        return;
    };
    let address = format!("rediss://localhost:{}/", server.1.number());
    let told = done(run.arg("--").arg(address).arg(folder.join("ca.crt")));
    assert_eq!(told, "held over TLS, then handed on\n");
}

/// A server, and its port for TLS.
fn tls_server(folder: &Path) -> Option<(Server, Port)> {
    if !tls::certificates(folder) {
        return None;
    }
    let port = Port::free();
    let server = tls::settings(Server::builder(), port.number(), folder).try_start();
    Some((server.ok()?, port))
}
