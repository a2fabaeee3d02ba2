//! A holder is suspended for longer than its lease. Its write comes too late, and `PostgreSQL` refuses it.

use std::env;
use std::time::Duration;

use redis_lock_client::{Guard, Locks};
use tokio_postgres::{Client, Error, NoTls};

const LATE: &str = "too late, a newer holder has claimed the seat";

/// Puts the token into the row, and then reads. A holder with a lower token cannot write from now on.
async fn claim(database: &Client, token: i64) -> Result<&'static str, Error> {
    let claim = "UPDATE seats SET fence = $1 WHERE id = 1 AND fence <= $1";
    if database.execute(claim, &[&token]).await? == 0 {
        return Ok(LATE);
    }
    let seat = database
        .query_one("SELECT buyer FROM seats WHERE id = 1", &[])
        .await?;
    Ok(match seat.get::<_, Option<String>>(0) {
        None => "free",
        Some(_) => "taken",
    })
}

/// Writes, unless somebody else has claimed the seat since.
async fn sell(database: &Client, buyer: &str, token: i64) -> Result<&'static str, Error> {
    let sell = "UPDATE seats SET buyer = $1 WHERE id = 1 AND fence = $2";
    let sold = database.execute(sell, &[&buyer, &token]).await?;
    Ok(if sold == 0 { LATE } else { "sold" })
}

/// The token as a BIGINT: it is below 2^53.
fn number(guard: &Guard) -> i64 {
    i64::try_from(guard.token()).expect("a token")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let variable = |name, or: &str| env::var(name).unwrap_or_else(|_| or.to_owned());
    let url = variable("REDIS_URL", "redis://127.0.0.1");
    let locks = Locks::builder().service("seats").single(url)?;
    let url = variable("DATABASE_URL", "postgres://127.0.0.1");
    let (database, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    let create = "CREATE TABLE seats (id int, buyer text, fence bigint);
                  INSERT INTO seats VALUES (1, NULL, 0)";
    database.batch_execute(create).await?;

    let lock = locks.lock("lock:seat:1");
    let slow = lock.clone().fixed(Duration::from_secs(1)).acquire().await?;
    println!("slow: {}", claim(&database, number(&slow)).await?);
    // Here slow is suspended: its lease ends, and the next one gets the lock.
    let quick = lock.acquire().await?;
    println!("quick: {}", claim(&database, number(&quick)).await?);
    println!("quick: {}", sell(&database, "quick", number(&quick)).await?);
    println!("slow: {}", sell(&database, "slow", number(&slow)).await?);
    quick.release().await?;
    Ok(())
}
