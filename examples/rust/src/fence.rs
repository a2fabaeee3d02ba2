//! A holder that outlives its lease, and whose late writes are refused.

use crate::arguments::Arguments;
use crate::redis_data::Data;
use crate::sql::{Database, ways};
use crate::{Outcome, print};
use redis_lock_client::{ErrorKind, Locks};
use serde_json::json;
use std::time::Duration;

const LOCK: &str = "lock:{order}";
const STATE: &str = "{order}:state";

const WRITE: &str = "
    redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
    redis.call('SET', KEYS[2], ARGV[2])
";

pub(crate) async fn run(locks: &Locks, mut data: Data, arguments: &Arguments) -> Outcome<()> {
    let name: String = arguments.get("name")?;
    let work = arguments.millis("work-ms")?;
    let database = Database::open(&arguments.get::<String>("sql")?).await?;
    let lock = locks.lock(LOCK).wait(Duration::from_secs(60));
    let guard = lock.acquire().await?;
    let token = guard.token();
    let mut seen = Vec::new();
    for way in ways(LOCK, token, &name)? {
        seen.push((database.claim(&way).await?, way));
    }
    print(&json!({ "event": "held", "token": token }));
    tokio::time::sleep(work).await;

    // Whatever the guard knows by now: it is not asked. That stands for a process that was stopped
    // between its last look and the write.
    let told = |written| if written { "written" } else { "refused" };
    let written = data
        .write_fenced(WRITE, &[LOCK, STATE], token, &name)
        .await?;
    let mut outcome = json!({ "redis": told(written) });
    for (free, way) in seen {
        outcome[way.name] = match free {
            None => "refused".into(),
            Some(0) => "sold".into(),
            Some(_) => told(database.sell(&way).await?).into(),
        };
    }
    match guard.release().await {
        Err(error) if error.kind() != ErrorKind::Lost => return Err(error.into()),
        _ => {}
    }
    print(&outcome);
    Ok(())
}
