//! What the locks guard: registers that are written only behind a token. What is written depends on nothing
//! that was read, so no claim is needed (`docs/fencing.md`).

use history::Written;
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A table in a database of its own. Each writer has a connection.
pub(crate) struct Sql {
    dir: TempDir,
}

impl Default for Sql {
    fn default() -> Self {
        Self::new()
    }
}

impl Sql {
    /// An empty table.
    pub(crate) fn new() -> Self {
        let sql = Self {
            dir: tempfile::tempdir().expect("a folder"),
        };
        let schema = "PRAGMA journal_mode = WAL;
            CREATE TABLE register (name TEXT PRIMARY KEY, fence BIGINT NOT NULL);
            CREATE TABLE taken (name TEXT NOT NULL, fence BIGINT NOT NULL);";
        sql.connection()
            .0
            .execute_batch(schema)
            .expect("an empty database");
        sql
    }

    /// Where it is, for writers in other processes.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("register")
    }

    /// A writer's connection.
    pub(crate) fn connection(&self) -> SqlRegister {
        SqlRegister::open(&self.path())
    }

    /// The tokens that the table has taken for each name, in that order, may never fall; the first
    /// place where they did.
    pub(crate) fn first_fall(&self) -> Option<String> {
        let fall = "SELECT name FROM (SELECT name, fence,
                lag(fence) OVER (PARTITION BY name ORDER BY rowid) AS before FROM taken)
            WHERE fence < before";
        let row = self.connection().0.query_row(fall, [], |row| row.get(0));
        row.optional().expect("a query")
    }
}

/// A writer's connection.
pub(crate) struct SqlRegister(Connection);

impl SqlRegister {
    /// A connection to the table that is here.
    pub(crate) fn open(path: &Path) -> Self {
        let connection = Connection::open(path).expect("a database");
        connection
            .execute_batch("PRAGMA synchronous = OFF; PRAGMA busy_timeout = 10000;")
            .expect("settings");
        Self(connection)
    }

    /// Writes, unless the register has taken a higher token.
    pub(crate) fn write(&mut self, name: &str, token: u64) -> Written {
        let token = i64::try_from(token).expect("tokens are below 2^53");
        let write = |connection: &mut Connection| -> rusqlite::Result<usize> {
            let transaction =
                connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let rows = transaction.execute(
                "INSERT INTO register VALUES (?1, ?2)
                    ON CONFLICT (name) DO UPDATE SET fence = ?2 WHERE fence <= ?2",
                params![name, token],
            )?;
            if rows == 1 {
                transaction.execute("INSERT INTO taken VALUES (?1, ?2)", params![name, token])?;
            }
            transaction.commit()?;
            Ok(rows)
        };
        match write(&mut self.0) {
            Ok(0) => Written::Refused,
            Ok(_) => Written::Taken,
            Err(e) => panic!("the database fails: {e}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sql;
    use history::Written::{Refused, Taken};

    #[test]
    fn the_table_takes_no_lower_token() {
        let sql = Sql::new();
        let (mut a, mut b) = (sql.connection(), sql.connection());
        let writes = [
            a.write("k", 5),
            b.write("k", 5),
            b.write("k", 7),
            a.write("k", 6),
        ];
        assert_eq!(writes, [Taken, Taken, Taken, Refused]);
        assert_eq!(a.write("other", 1), Taken);
        assert_eq!(sql.first_fall(), None);
        a.0.execute("INSERT INTO taken VALUES ('k', 6)", [])
            .expect("a row behind the register's back");
        assert_eq!(sql.first_fall().as_deref(), Some("k"));
    }
}
