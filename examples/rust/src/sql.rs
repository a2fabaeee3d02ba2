//! The last seat, sold in SQL: claimed, looked at, then sold under the claim (`docs/fencing.md`).

use crate::Outcome;
use tokio_postgres::NoTls;
use tokio_postgres::types::ToSql;

/// What a statement is given for `$1` and so on.
pub(crate) enum Given {
    Number(i64),
    Text(String),
}
use Given::{Number, Text};

type Statement = (&'static str, Vec<Given>);

/// Where the seat is kept, and how it is sold from there.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// Changes no row for a token that is stale.
    claim: Statement,
    free: &'static str,
    /// The first changes no row when the claim does not stand any more.
    sell: Vec<Statement>,
}

/// In one row that is there, in one that is not there yet, and in several tables.
pub(crate) fn ways(lock: &str, token: u64, buyer: &str) -> Outcome<[Way; 3]> {
    // A token is below 2^53, so a BIGINT holds it.
    let token = i64::try_from(token)?;
    let (lock, buyer) = (|| Text(lock.to_owned()), || Text(buyer.to_owned()));
    Ok([
        Way {
            name: "row",
            claim: (
                "UPDATE seats SET fence = $1 WHERE id = 42 AND fence <= $1",
                vec![Number(token)],
            ),
            free: "SELECT count(*) FROM seats WHERE id = 42 AND buyer IS NULL",
            sell: vec![(
                "UPDATE seats SET buyer = $1 WHERE id = 42 AND fence = $2",
                vec![buyer(), Number(token)],
            )],
        },
        Way {
            name: "new_row",
            claim: (
                "INSERT INTO bookings (id, fence) VALUES (42, $1)
                    ON CONFLICT (id) DO UPDATE SET fence = excluded.fence
                    WHERE bookings.fence <= excluded.fence",
                vec![Number(token)],
            ),
            free: "SELECT count(*) FROM bookings WHERE id = 42 AND buyer IS NULL",
            sell: vec![(
                "UPDATE bookings SET buyer = $1 WHERE id = 42 AND fence = $2",
                vec![buyer(), Number(token)],
            )],
        },
        Way {
            name: "tables",
            claim: (
                "INSERT INTO fences (name, fence) VALUES ($1, $2)
                    ON CONFLICT (name) DO UPDATE SET fence = excluded.fence
                    WHERE fences.fence <= excluded.fence",
                vec![lock(), Number(token)],
            ),
            free: "SELECT free FROM stock WHERE id = 42",
            sell: vec![
                (
                    "UPDATE fences SET fence = $1 WHERE fence = $1 AND name = $2",
                    vec![Number(token), lock()],
                ),
                ("UPDATE stock SET free = free - 1 WHERE id = 42", vec![]),
                (
                    "INSERT INTO sales (buyer, token) VALUES ($1, $2)",
                    vec![buyer(), Number(token)],
                ),
            ],
        },
    ])
}

pub(crate) enum Database {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Database {
    pub(crate) async fn open(url: &str) -> Outcome<Self> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            return Ok(Self::Sqlite(rusqlite::Connection::open(path)?));
        }
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                eprintln!("PostgreSQL: {error}");
            }
        });
        Ok(Self::Postgres(client))
    }

    /// Claims, and only then looks how many are free; none when the token is stale.
    pub(crate) async fn claim(&self, way: &Way) -> Outcome<Option<i64>> {
        if self.execute(&way.claim).await? == 0 {
            return Ok(None);
        }
        Ok(Some(match self {
            Self::Sqlite(connection) => connection.query_row(way.free, (), |row| row.get(0))?,
            Self::Postgres(client) => client.query_one(way.free, &[]).await?.get(0),
        }))
    }

    /// Whether it was sold: not when somebody has claimed it since.
    pub(crate) async fn sell(&self, way: &Way) -> Outcome<bool> {
        self.execute(&("BEGIN", vec![])).await?;
        for (number, statement) in way.sell.iter().enumerate() {
            if self.execute(statement).await? == 0 && number == 0 {
                self.execute(&("ROLLBACK", vec![])).await?;
                return Ok(false);
            }
        }
        self.execute(&("COMMIT", vec![])).await?;
        Ok(true)
    }

    /// How many rows it has changed.
    async fn execute(&self, (text, given): &Statement) -> Outcome<u64> {
        match self {
            Self::Sqlite(connection) => {
                let given = given.iter().map(|value| match value {
                    Number(number) => number as &dyn rusqlite::ToSql,
                    Text(text) => text,
                });
                let rows = connection.execute(text, rusqlite::params_from_iter(given))?;
                Ok(u64::try_from(rows)?)
            }
            Self::Postgres(client) => {
                let given = given.iter().map(|value| match value {
                    Number(number) => number as &(dyn ToSql + Sync),
                    Text(text) => text,
                });
                Ok(client.execute(*text, &given.collect::<Vec<_>>()).await?)
            }
        }
    }
}
