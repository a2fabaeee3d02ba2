//! The table that is written to, in either kind of database.

use crate::postgres::Postgres;
use tempfile::TempDir;
use tokio_postgres::NoTls;

const CREATE: &str = "
    CREATE TABLE orders (id BIGINT PRIMARY KEY, state TEXT NOT NULL, fence BIGINT NOT NULL);
    INSERT INTO orders VALUES (42, 'new', 0);
";
const LOOK: &str = "SELECT state, fence FROM orders WHERE id = 42";

/// A database with the table in it, for as long as this guard lives.
pub(crate) struct Database {
    url: String,
    /// Its file, or its server.
    _place: Place,
}

enum Place {
    Sqlite { _folder: TempDir },
    Postgres { _server: Postgres },
}

impl Database {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("orders.db");
        let connection = rusqlite::Connection::open(&path).expect("a database");
        connection.execute_batch(CREATE).expect("a table");
        Self {
            url: format!("sqlite:{}", path.display()),
            _place: Place::Sqlite { _folder: folder },
        }
    }

    pub(crate) fn postgres(server: Postgres) -> Self {
        let url = server.url().to_owned();
        let again = format!("DROP TABLE IF EXISTS orders; {CREATE}");
        in_postgres(&url, async |client| {
            client.batch_execute(&again).await.expect("a table");
        });
        Self {
            url,
            _place: Place::Postgres { _server: server },
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The state and the highest token of the row.
    pub(crate) fn row(&self) -> (String, i64) {
        match self.url.strip_prefix("sqlite:") {
            Some(path) => {
                let connection = rusqlite::Connection::open(path).expect("a database");
                let row = connection.query_row(LOOK, (), |row| Ok((row.get(0)?, row.get(1)?)));
                row.expect("a row")
            }
            None => in_postgres(&self.url, async |client| {
                let row = client.query_one(LOOK, &[]).await.expect("a row");
                (row.get(0), row.get(1))
            }),
        }
    }
}

fn in_postgres<T>(url: &str, work: impl AsyncFnOnce(&tokio_postgres::Client) -> T) -> T {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let connected = tokio_postgres::connect(url, NoTls).await;
        let (client, connection) = connected.expect("a connection");
        tokio::spawn(connection);
        work(&client).await
    })
}
