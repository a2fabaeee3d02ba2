//! A table whose rows take a write only with a token that is not lower than the last.

use crate::Outcome;
use tokio_postgres::NoTls;

pub(crate) enum Orders {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Orders {
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

    /// Whether the row was written: not when somebody with a higher token had been there.
    pub(crate) async fn write(&self, state: &str, token: u64) -> Outcome<bool> {
        const UPDATE: &str =
            "UPDATE orders SET state = $1, fence = $2 WHERE id = 42 AND fence <= $2";
        // A token is below 2^53, so a BIGINT holds it.
        let token = i64::try_from(token)?;
        let rows = match self {
            Self::Sqlite(connection) => u64::try_from(connection.execute(UPDATE, (state, token))?)?,
            Self::Postgres(client) => client.execute(UPDATE, &[&state, &token]).await?,
        };
        Ok(rows > 0)
    }
}
