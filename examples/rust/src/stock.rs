//! Stock that many buyers sell exactly to zero.

use crate::arguments::Arguments;
use crate::redis_data::Data;
use crate::{Outcome, print};
use redis_lock_client::Locks;
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinSet;

const LOCK: &str = "lock:{stock}";
const LEFT: &str = "{stock}:left";
const SOLD: &str = "{stock}:sold";

const SELL: &str = "
    redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
    redis.call('SET', KEYS[2], ARGV[2])
    redis.call('RPUSH', KEYS[3], ARGV[3])
";

#[derive(Default)]
struct Tally {
    sold: u32,
    refused: u32,
    stale_refused: u32,
}

pub(crate) async fn run(locks: &Locks, data: Data, arguments: &Arguments) -> Outcome<()> {
    let name: String = arguments.get("name")?;
    let buyers: u32 = arguments.get("buyers")?;
    let mut tasks = JoinSet::new();
    for number in 1..=buyers {
        let buyer = format!("{name}-{number}");
        tasks.spawn(buy(locks.clone(), data.clone(), buyer));
    }
    let mut sum = Tally::default();
    while let Some(tally) = tasks.join_next().await {
        let tally = tally??;
        sum.sold += tally.sold;
        sum.refused += tally.refused;
        sum.stale_refused += tally.stale_refused;
    }
    print(&json!({
        "sold": sum.sold, "refused": sum.refused, "stale_refused": sum.stale_refused,
    }));
    Ok(())
}

async fn buy(locks: Locks, mut data: Data, buyer: String) -> Outcome<Tally> {
    let lock = locks.lock(LOCK).wait(Duration::from_secs(60));
    let mut tally = Tally::default();
    loop {
        let guard = lock.acquire().await?;
        let left: u32 = data.get(LEFT).await?;
        if left == 0 {
            tally.refused += 1;
            guard.release().await?;
            return Ok(tally);
        }
        // Without a lock, others would sell the same piece now.
        tokio::time::sleep(Duration::from_millis(2)).await;
        let written = data
            .write_fenced(SELL, &[LOCK, LEFT, SOLD], guard.token(), (left - 1, &buyer))
            .await?;
        if written {
            tally.sold += 1;
            guard.release().await?;
            return Ok(tally);
        }
        // The lock was lost in between, and with it the right to write: from the beginning.
        tally.stale_refused += 1;
    }
}
