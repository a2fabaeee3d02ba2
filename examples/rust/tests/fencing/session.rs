//! Connections to a database of either kind.

use crate::postgres::Postgres;
use rusqlite::ErrorCode;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{NoTls, SimpleQueryMessage};

const CREATE: &str = "
    DROP TABLE IF EXISTS seats;
    CREATE TABLE seats (id BIGINT PRIMARY KEY, buyer TEXT, fence BIGINT NOT NULL);
    INSERT INTO seats VALUES (42, NULL, 0);
    DROP TABLE IF EXISTS bookings;
    CREATE TABLE bookings (id BIGINT PRIMARY KEY, buyer TEXT, fence BIGINT NOT NULL);
    DROP TABLE IF EXISTS stock;
    CREATE TABLE stock (id BIGINT PRIMARY KEY, free BIGINT NOT NULL);
    INSERT INTO stock VALUES (42, 1);
    DROP TABLE IF EXISTS sales;
    CREATE TABLE sales (buyer TEXT NOT NULL, token BIGINT NOT NULL);
    DROP TABLE IF EXISTS fences;
    CREATE TABLE fences (name TEXT PRIMARY KEY, fence BIGINT NOT NULL);
";

/// A database with one seat to sell, for as long as this guard lives.
pub(crate) enum Database {
    Sqlite(TempDir),
    Postgres(Postgres),
}

impl Database {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().expect("a folder"))
    }

    /// None where `PostgreSQL` is not installed.
    pub(crate) fn postgres() -> Option<Self> {
        let server = Postgres::find();
        if server.is_none() {
            println!("PostgreSQL is not installed: left out");
        }
        server.map(Self::Postgres)
    }

    /// Puts all tables back to where nothing is sold.
    pub(crate) fn reset(&self) {
        match self.connect() {
            Session::Sqlite(connection) => connection.execute_batch(CREATE).expect("tables"),
            Session::Postgres(runtime, client) => {
                runtime
                    .block_on(client.batch_execute(CREATE))
                    .expect("tables");
            }
        }
    }

    pub(crate) fn connect(&self) -> Session {
        match self {
            Self::Sqlite(folder) => {
                let connection = rusqlite::Connection::open(folder.path().join("shop.db"));
                let connection = connection.expect("a database");
                connection.busy_timeout(Duration::ZERO).expect("a setting");
                let quick = connection.pragma_update(None, "synchronous", "OFF");
                quick.expect("a setting");
                Session::Sqlite(connection)
            }
            Self::Postgres(server) => {
                let mut builder = Builder::new_multi_thread();
                let runtime = builder.worker_threads(1).enable_all().build();
                let runtime = runtime.expect("a runtime");
                let connected = runtime.block_on(tokio_postgres::connect(server.url(), NoTls));
                let (client, connection) = connected.expect("a connection");
                runtime.spawn(connection);
                Session::Postgres(runtime, client)
            }
        }
    }
}

pub(crate) enum Session {
    Sqlite(rusqlite::Connection),
    Postgres(Runtime, tokio_postgres::Client),
}

impl Session {
    /// How many rows the statement has changed; or the error's code: `busy`, or an SQLSTATE.
    pub(crate) fn change(&mut self, statement: &str) -> Result<u64, String> {
        match self {
            Self::Sqlite(connection) => match connection.execute(statement, ()) {
                Ok(rows) => Ok(rows as u64),
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                    Err("busy".to_owned())
                }
                Err(error) => panic!("{statement}: {error}"),
            },
            Self::Postgres(runtime, client) => {
                let messages = runtime.block_on(client.simple_query(statement));
                let messages = messages.map_err(|error| match error.code() {
                    Some(code) => code.code().to_owned(),
                    None => "closed".to_owned(),
                })?;
                let rows = messages.iter().find_map(|message| match message {
                    SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
                    _ => None,
                });
                Ok(rows.unwrap_or_default())
            }
        }
    }

    /// The only number that the query finds; none where it finds no row.
    pub(crate) fn look(&mut self, query: &str) -> Option<i64> {
        match self {
            Self::Sqlite(connection) => {
                let found = connection.query_row(query, (), |row| row.get(0));
                rusqlite::OptionalExtension::optional(found).expect("a query")
            }
            Self::Postgres(runtime, client) => {
                let found = runtime.block_on(client.query_opt(query, &[]));
                found.expect("a query").map(|row| row.get(0))
            }
        }
    }
}
