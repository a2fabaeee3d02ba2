//! The tables that are written to, in either kind of database.

use crate::postgres::Postgres;
use tempfile::TempDir;
use tokio_postgres::NoTls;

const TABLES: [&str; 5] = ["seats", "bookings", "stock", "sales", "fences"];
const CREATE: &str = "
    CREATE TABLE seats (id BIGINT PRIMARY KEY, buyer TEXT, fence BIGINT NOT NULL);
    INSERT INTO seats VALUES (42, NULL, 0);
    CREATE TABLE bookings (id BIGINT PRIMARY KEY, buyer TEXT, fence BIGINT NOT NULL);
    CREATE TABLE stock (id BIGINT PRIMARY KEY, free BIGINT NOT NULL);
    INSERT INTO stock VALUES (42, 1);
    CREATE TABLE sales (buyer TEXT NOT NULL, token BIGINT NOT NULL);
    CREATE TABLE fences (name TEXT PRIMARY KEY, fence BIGINT NOT NULL);
";
/// Who has bought what, with which token, and the tokens of the last claims.
const LOOK: &str = "
    SELECT 'row: ' || seats.buyer || ' ' || seats.fence
        || ', new row: ' || bookings.buyer || ' ' || bookings.fence
        || ', tables: ' || (SELECT min(buyer) || ' ' || min(token) || ' of ' || count(*) FROM sales)
        || ' ' || fences.name || ' ' || fences.fence || ' left ' || stock.free
    FROM seats, bookings, fences, stock
";

/// A database with the tables in it, for as long as this guard lives.
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
        let path = folder.path().join("shop.db");
        let connection = rusqlite::Connection::open(&path).expect("a database");
        connection.execute_batch(CREATE).expect("tables");
        Self {
            url: format!("sqlite:{}", path.display()),
            _place: Place::Sqlite { _folder: folder },
        }
    }

    pub(crate) fn postgres(server: Postgres) -> Self {
        let url = server.url().to_owned();
        let again = format!("DROP TABLE IF EXISTS {}; {CREATE}", TABLES.join(", "));
        in_postgres(&url, async |client| {
            client.batch_execute(&again).await.expect("tables");
        });
        Self {
            url,
            _place: Place::Postgres { _server: server },
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What was sold: by a seller with this token, where the last claim was made with that one.
    pub(crate) fn expect_sold(&self, buyer: &str, token: u64, last: u64) {
        let sold = match self.url.strip_prefix("sqlite:") {
            Some(path) => {
                let connection = rusqlite::Connection::open(path).expect("a database");
                let sold = connection.query_row(LOOK, (), |row| row.get(0));
                sold.expect("rows")
            }
            None => in_postgres(&self.url, async |client| -> String {
                client.query_one(LOOK, &[]).await.expect("rows").get(0)
            }),
        };
        let wanted = format!(
            "row: {buyer} {last}, new row: {buyer} {last}, \
             tables: {buyer} {token} of 1 lock:{{order}} {last} left 0"
        );
        assert_eq!(sold, wanted);
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
