//! Contenders in this process through the project's own client, one for all of them, as its users have it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis_lock_client::{Lock, Locks};
use testbed::{Expect, Server, cmd};
use tokio::runtime::Runtime;

use super::contestant::{Outcome, Runner};
use super::turn::{Tally, Turn, outcome};
use crate::scale::Workload;

pub(super) struct Clients {
    runtime: Runtime,
    locks: Locks,
    workload: Workload,
}

impl Clients {
    pub(super) fn new(server: &Server) -> Result<Self, String> {
        let runtime = Runtime::new().map_err(|error| error.to_string())?;
        let url = format!("redis://127.0.0.1:{}/", server.port());
        Ok(Self {
            runtime,
            locks: Locks::open(url).map_err(|error| error.to_string())?,
            workload: Workload {
                contenders: 0,
                locks: 0,
            },
        })
    }
}

impl Runner for Clients {
    fn open(&mut self, server: &Server, workload: Workload) -> Result<(), String> {
        for lock in 0..workload.locks {
            cmd!(server.connection(), "DEL", key(lock)).int();
        }
        self.workload = workload;
        Ok(())
    }

    fn turn(&mut self, seconds: f64) -> Result<Outcome, String> {
        let Workload { contenders, locks } = self.workload;
        let turn = Arc::new(Turn::of(locks));
        self.runtime.block_on(async {
            let began = Instant::now();
            let all: Vec<_> = (0..contenders)
                .map(|number| {
                    let lock = number % locks;
                    let handle = self.locks.lock(key(lock));
                    tokio::spawn(contend(handle, lock, Arc::clone(&turn)))
                })
                .collect();
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            turn.end();
            let seconds = began.elapsed().as_secs_f64();
            let mut tallies = Vec::new();
            for contender in all {
                tallies.push(contender.await.expect("a contender"));
            }
            Ok(outcome(&tallies, seconds))
        })
    }
}

fn key(lock: usize) -> String {
    format!("contest:client:{lock}")
}

async fn contend(handle: Lock, lock: usize, turn: Arc<Turn>) -> Tally {
    let mut tally = Tally::default();
    while !turn.is_over() {
        let released = match handle.acquire().await {
            Ok(guard) => {
                turn.granted(lock, &mut tally);
                guard.release().await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = released {
            eprintln!("{error}");
            tally.errors += 1;
        }
    }
    tally
}
