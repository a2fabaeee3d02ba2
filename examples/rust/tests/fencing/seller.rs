//! A holder of the lock who sells the last seat: by the recipe, or without the claim.

use crate::session::Session;
use std::sync::LazyLock;
use testbed::{Expect, Server, cmd};

/// Where the seat is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    Row,
    /// In a row that is not there yet.
    NewRow,
    /// In several tables, behind one fence row.
    Tables,
}

pub(crate) const EVERYWHERE: [Kept; 3] = [Kept::Row, Kept::NewRow, Kept::Tables];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Recipe {
    /// The write alone looks at the token: what was read before may have changed by then.
    OnlyWrites,
    Claims,
}

#[derive(Clone)]
pub(crate) struct Seller {
    pub(crate) claim: String,
    pub(crate) free: &'static str,
    /// The first changes no row for a stale token.
    pub(crate) sell: Vec<String>,
}

impl Seller {
    pub(crate) fn new(kept: Kept, recipe: Recipe, buyer: &str, token: i64) -> Self {
        let claims = recipe == Recipe::Claims;
        let claim_or_insert = |table: &str, key: &str, value: &str| {
            format!(
                "INSERT INTO {table} ({key}, fence) VALUES ({value}, {token})
                    ON CONFLICT ({key}) DO UPDATE SET fence = excluded.fence
                    WHERE {table}.fence <= excluded.fence"
            )
        };
        let under_claim = |table: &str| {
            format!("UPDATE {table} SET buyer = '{buyer}' WHERE id = 42 AND fence = {token}")
        };
        match kept {
            Kept::Row => Self {
                claim: format!(
                    "UPDATE seats SET fence = {token} WHERE id = 42 AND fence <= {token}"
                ),
                free: "SELECT count(*) FROM seats WHERE id = 42 AND buyer IS NULL",
                sell: vec![if claims {
                    under_claim("seats")
                } else {
                    format!(
                        "UPDATE seats SET buyer = '{buyer}', fence = {token}
                            WHERE id = 42 AND fence <= {token}"
                    )
                }],
            },
            Kept::NewRow => Self {
                claim: claim_or_insert("bookings", "id", "42"),
                free: "SELECT 1 - count(*) FROM bookings WHERE id = 42 AND buyer IS NOT NULL",
                sell: vec![if claims {
                    under_claim("bookings")
                } else {
                    format!(
                        "INSERT INTO bookings (id, buyer, fence) VALUES (42, '{buyer}', {token})
                            ON CONFLICT (id) DO UPDATE SET buyer = '{buyer}', fence = {token}
                            WHERE bookings.fence <= {token}"
                    )
                }],
            },
            Kept::Tables => Self {
                claim: claim_or_insert("fences", "name", "'lock:seat'"),
                free: "SELECT free FROM stock WHERE id = 42",
                sell: vec![
                    if claims {
                        format!(
                            "UPDATE fences SET fence = {token}
                                WHERE name = 'lock:seat' AND fence = {token}"
                        )
                    } else {
                        claim_or_insert("fences", "name", "'lock:seat'")
                    },
                    "UPDATE stock SET free = free - 1 WHERE id = 42".to_owned(),
                    format!("INSERT INTO sales (buyer, token) VALUES ('{buyer}', {token})"),
                ],
            },
        }
    }

    pub(crate) fn claim(&self, session: &mut Session) -> Result<bool, String> {
        Ok(session.change(&self.claim)? == 1)
    }

    pub(crate) fn free(&self, session: &mut Session) -> i64 {
        session.look(self.free).expect("a row")
    }

    /// Whether it was sold, in a transaction that is open already or was not needed.
    pub(crate) fn sell(&self, session: &mut Session) -> Result<bool, String> {
        for (number, statement) in self.sell.iter().enumerate() {
            if session.change(statement)? == 0 {
                assert_eq!(number, 0, "only the first may change nothing: {statement}");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The same, in a transaction of its own.
    pub(crate) fn sell_alone(&self, session: &mut Session) -> Result<bool, String> {
        session.change("BEGIN")?;
        let sold = self.sell(session)?;
        session.change(if sold { "COMMIT" } else { "ROLLBACK" })?;
        Ok(sold)
    }
}

/// The first with the token of a grant whose lease has ended, the second with that of the next grant.
pub(crate) fn two(kept: Kept, recipe: Recipe) -> [Seller; 2] {
    static TOKENS: LazyLock<[i64; 2]> = LazyLock::new(|| {
        let server = Server::start();
        let mut redis = server.connection();
        let first = cmd!(redis, "LOCK.ACQUIRE", "lock:seat", "a", "PX", 1).grant();
        let second = cmd!(redis, "LOCK.ACQUIRE", "lock:seat", "b", "BLOCK", 0).grant();
        assert!(second.token > first.token);
        [first.token, second.token]
    });
    [("a", TOKENS[0]), ("b", TOKENS[1])]
        .map(|(buyer, token)| Seller::new(kept, recipe, buyer, token))
}
