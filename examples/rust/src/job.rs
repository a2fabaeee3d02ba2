//! A scheduled job that runs once, though its holder may die in the middle.

use crate::arguments::Arguments;
use crate::redis_data::Data;
use crate::{Outcome, print};
use redis_lock_client::{Guard, Locks};
use serde_json::json;
use std::time::Duration;

const LOCK: &str = "lock:{job}";

const DO_STEP: &str = "
    redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
    redis.call('SET', KEYS[2], ARGV[2])
    redis.call('RPUSH', KEYS[3], ARGV[2] .. ' ' .. ARGV[3])
    if ARGV[4] == '1' then redis.call('SET', KEYS[4], ARGV[3]) end
";

struct Job {
    name: String,
    steps: u32,
    step: Duration,
    step_key: String,
    log_key: String,
    done_key: String,
}

pub(crate) async fn run(locks: &Locks, mut data: Data, arguments: &Arguments) -> Outcome<()> {
    let run: String = arguments.get("run")?;
    let key = |part: &str| format!("{{job}}:{run}:{part}");
    let job = Job {
        name: arguments.get("name")?,
        steps: arguments.get("steps")?,
        step: arguments.millis("step-ms")?,
        step_key: key("step"),
        log_key: key("log"),
        done_key: key("done"),
    };
    let lock = locks.lock(LOCK).wait(Duration::from_secs(60));
    let guard = lock.acquire().await?;
    if data.exists(&job.done_key).await? {
        guard.release().await?;
        print(&json!({ "job": "skipped" }));
        return Ok(());
    }
    let mut done = 0;
    let completed = tokio::select! {
        _ = guard.lost() => false,
        completed = job.work(&mut data, &guard, &mut done) => completed?,
    };
    if completed {
        guard.release().await?;
        print(&json!({ "job": "completed", "steps": done }));
    } else {
        print(&json!({ "job": "lost", "steps": done }));
    }
    Ok(())
}

impl Job {
    /// Whether it came to the end: not when the lock was lost.
    async fn work(&self, data: &mut Data, guard: &Guard, done: &mut u32) -> Outcome<bool> {
        let last: Option<u32> = data.get(&self.step_key).await?;
        let keys = [LOCK, &self.step_key, &self.log_key, &self.done_key];
        for step in last.unwrap_or(0) + 1..=self.steps {
            tokio::time::sleep(self.step).await;
            let token = guard.token();
            let by = format!("{token} {}", self.name);
            let is_last = u8::from(step == self.steps);
            let written = data
                .write_fenced(DO_STEP, &keys, token, (step, by, is_last))
                .await?;
            if !written {
                return Ok(false);
            }
            *done += 1;
        }
        Ok(true)
    }
}
