//! Twenty buyers at once buy from a stock of ten: it is sold exactly to zero.

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redis_lock_client::Locks;
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

async fn buy(mut redis: MultiplexedConnection, locks: Locks, buyer: u32) -> Result<bool> {
    let guard = locks.lock("lock:stock").acquire().await?;
    let left: u32 = redis.get("stock").await?;
    if left > 0 {
        // Without the lock, others would sell the same piece now.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let (): () = redis.set("stock", left - 1).await?;
        let (): () = redis.rpush("sold", buyer).await?;
    }
    guard.release().await?;
    Ok(left > 0)
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1".to_owned());
    let client = redis::Client::open(url)?;
    let mut redis = client.get_multiplexed_async_connection().await?;
    let locks = Locks::new(&client, "stock");

    let (): () = redis.set("stock", 10).await?;
    let buyers = (0..20).map(|buyer| buy(redis.clone(), locks.clone(), buyer));
    let sales = buyers.collect::<JoinSet<_>>().join_all().await;
    let sold = sales.into_iter().collect::<Result<Vec<_>>>()?;
    let bought = sold.iter().filter(|bought| **bought).count();
    println!("{bought} bought, {} too late", sold.len() - bought);
    locks.close().await?;
    Ok(())
}
