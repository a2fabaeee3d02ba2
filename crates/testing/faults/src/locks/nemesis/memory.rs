//! Memory that is full.

use super::LocksNemesis;
use crate::connection::connect;
use rand::RngExt;
use redis::{Connection, RedisResult, Value};
use std::thread::sleep;
use std::time::Duration;
use testbed::line;

impl LocksNemesis<'_> {
    /// Fills the memory up to its limit, and keeps it full for a while.
    pub(super) fn fill(&mut self, policy: &'static str) -> bool {
        const BALLAST: usize = 64;
        let from = self.stage.run.now();
        let mut filled = || -> RedisResult<u64> {
            let mut c = connect(self.primary_port())?;
            let field = |c: &mut Connection, section: &str, name: &str| -> RedisResult<u64> {
                let info: redis::InfoDict = redis::cmd("INFO").arg(section).query(c)?;
                Ok(info.get(name).unwrap_or_default())
            };
            let evicted = field(&mut c, "stats", "evicted_keys")?;
            line(&format!("CONFIG SET maxmemory-policy {policy}")).query::<()>(&mut c)?;
            let limit = field(&mut c, "memory", "used_memory")? + 600_000;
            line(&format!("CONFIG SET maxmemory {limit}")).query::<()>(&mut c)?;
            let until = self.stage.run.now() + self.random.random_range(200_000..500_000);
            while self.stage.run.now() < until {
                for number in 0..BALLAST {
                    let mut set = redis::cmd("SET");
                    set.arg(format!("ballast-{number}")).arg("x".repeat(20_000));
                    // OOM is what this is for.
                    let _ = set.query::<Value>(&mut c);
                }
                sleep(Duration::from_millis(10));
            }
            line("CONFIG SET maxmemory 0").query::<()>(&mut c)?;
            for number in 0..BALLAST {
                line(&format!("UNLINK ballast-{number}")).query::<()>(&mut c)?;
            }
            Ok(field(&mut c, "stats", "evicted_keys")? - evicted)
        };
        let evicted = filled();
        if policy != "noeviction" {
            self.stage.may_evict(self.stage.run.since(from));
        }
        match evicted {
            Ok(keys) => {
                self.stage.run.count("evicted keys", keys);
                true
            }
            Err(e) => {
                self.stage
                    .run
                    .trouble(format!("memory could not be filled: {e}"));
                false
            }
        }
    }
}
