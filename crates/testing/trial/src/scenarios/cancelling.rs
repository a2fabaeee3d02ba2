//! A wait is called off.

use crate::failure::{Failure, Verdict, ensure};
use crate::limits::ms;
use crate::site::DRIVER;
use crate::stage::{LEASE, Stage, random};
use crate::worker::Answer;
use std::thread;
use std::time::Duration;
use testbed::{Expect, cmd};

/// By how much, in microseconds, a cancellation is sent sooner or later than the last one.
const LEAD_STEP: i64 = 500;

/// In the very moment of the grant: afterwards the lock is free, or held by exactly who was told so.
pub(super) fn at_the_grant(stage: &Stage) -> Verdict {
    let (site, worker) = stage.pair()?;
    let mut server = site.server().connection();
    let (mut granted, mut cancelled) = (0, 0);
    let rounds = stage.count(60, 1000);
    // By how much the cancellation goes ahead, in microseconds: as much as makes both outcomes come about.
    let mut lead = 0;
    for round in 0..rounds {
        let key = format!("key-{}", round % 7);
        let call = site.in_vain(&worker.acquire(&key).wait(ms(20_000)))?;
        // Both, some microseconds before or after each other.
        let offset = i64::try_from(random(3000)).expect("a small number") - 1500 - lead;
        let apart = |is_late: bool| {
            if is_late {
                thread::sleep(Duration::from_micros(offset.unsigned_abs()));
            }
        };
        let number = call.number();
        let cancel = thread::scope(|scope| {
            let cancel = scope.spawn(|| {
                apart(offset > 0);
                worker.cancel_number(number)
            });
            apart(offset < 0);
            cmd!(server, "LOCK.RELEASE", &key, DRIVER).int();
            cancel.join().expect("a thread")
        });
        // A grant that came first leaves nothing to cancel, whatever that is called.
        let cancel = cancel.answer()?;
        if cancel.class() == Some("unsupported") {
            return Err(Failure::Unsupported(cancel.to_string()));
        }
        match call.answer()? {
            Answer::Grant(grant) => {
                granted += 1;
                lead += LEAD_STEP;
                stage.agree(&site)?;
                worker.release(&grant).ok()?;
            }
            other => {
                let is_so = other.class() == Some("cancelled");
                ensure!(is_so, "a cancelled wait is answered with {other}");
                cancelled += 1;
                lead -= LEAD_STEP;
                stage.agree(&site)?;
            }
        }
        stage.agree(&site)?;
    }
    let both = granted + cancelled == rounds && cancelled > 0;
    ensure!(both, "of {rounds} waits none was cancelled");

    // In line, and forever, and where nobody releases.
    site.take("taken");
    let calls: Vec<_> = (0..20)
        .map(|_| worker.acquire("taken").for_ever().ask())
        .collect();
    site.until_waiting("taken", calls.len())?;
    for call in &calls {
        worker.cancel(call).answer()?;
        call.refused("cancelled")?;
    }
    stage.agree(&site)?;
    // Before it waits in line.
    for _ in 0..20 {
        let call = worker.acquire("taken").for_ever().ask();
        worker.cancel(&call).answer()?;
        call.refused("cancelled")?;
        stage.agree(&site)?;
    }
    site.give_back("taken");
    stage.end(&site, &[&worker], LEASE)
}
