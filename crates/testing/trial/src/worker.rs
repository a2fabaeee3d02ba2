//! One worker: a process that has the client of a language, and does what one line of JSON after the other says.

mod call;
mod process;
mod request;

pub(crate) use call::{Answer, Call};
pub(crate) use process::Usage;
pub(crate) use request::{Acquire, Mode};

use crate::failure::{Failure, Verdict, ensure};
use crate::ledger::{Grant, Shared};
use crate::limits::{RELEASE, REPLY, lateness, ms, until};
use crate::site::Site;
use call::{Desk, Kind};
use process::Process;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use testbed::Signal;

/// How long a worker may take to start, its runtime included.
const START: Duration = Duration::from_secs(20);
/// A loss that is told too late is waited for, to tell how late.
const MUCH_LATER: Duration = ms(3000);
/// The name of every scenario's first `Locks`.
pub(crate) const LOCKS: &str = "a";

/// A worker that runs. It is killed with this handle.
pub(crate) struct Worker {
    index: usize,
    desk: Arc<Desk>,
    process: Process,
    ledger: Shared,
}

impl Worker {
    /// Starts one, and waits until it answers.
    pub(crate) fn start(
        program: &Path,
        index: usize,
        ledger: &Shared,
        patience: Duration,
    ) -> Verdict<Self> {
        let desk = Arc::new(Desk::new(index, Arc::clone(ledger)));
        let process = Process::start(program, &desk)
            .map_err(|why| Failure::Wrong(format!("does not start: {why}")))?;
        let worker = Self {
            index,
            desk,
            process,
            ledger: Arc::clone(ledger),
        };
        let nothing = json!({ "do": "stall", "ms": 0 });
        match worker.call(nothing, Kind::Other, patience).answer()? {
            Answer::Ok(_) => Ok(worker),
            other => {
                let last_words = worker.process.last_words();
                Err(format!("does not start: {other:?}{last_words}").into())
            }
        }
    }

    /// The usual patience with a start.
    pub(crate) fn started(program: &Path, index: usize, ledger: &Shared) -> Verdict<Self> {
        Self::start(program, index, ledger, START)
    }

    /// Takes, awaits and gives back a lock, in any time.
    pub(crate) fn warm_up(&self, site: &Site) -> Verdict {
        const WARM: &str = "warm";
        let key = format!("warm-{}", self.process.number());
        let call = |request, kind| self.call(request, kind, START);
        let acquire = self.acquire(&key).of(WARM).wait(START);
        let ask = || call(acquire.request(), acquire.kind());
        let release = |grant: &Grant| {
            let request = json!({ "do": "release", "grant": grant.number.1 });
            call(request, Kind::Release(grant.number)).ok()
        };
        call(opening(WARM, site, None), Kind::Other).ok()?;
        let first = ask().granted()?;
        let second = ask();
        release(&first)?;
        release(&second.granted()?)?;
        let close = json!({ "do": "close", "locks": WARM });
        call(close, Kind::Close(WARM.to_owned())).ok()
    }

    /// Makes a `Locks` on these servers.
    pub(crate) fn open(&self, site: &Site) -> Verdict {
        self.open_as(LOCKS, site, None).ok()
    }

    /// The same with a name and a password of its own; whether it can be done is told by the answer.
    pub(crate) fn open_as(&self, locks: &str, site: &Site, password: Option<&str>) -> Call {
        // Some clients connect here, others later.
        let request = opening(locks, site, password);
        self.call(request, Kind::Other, 2 * REPLY)
    }

    /// To ask for a lock.
    pub(crate) fn acquire(&self, key: &str) -> Acquire<'_> {
        Acquire::new(self, key)
    }

    fn ask(&self, acquire: &Acquire<'_>) -> Call {
        self.call(acquire.request(), acquire.kind(), acquire.limit())
    }

    /// Calls a call off.
    pub(crate) fn cancel(&self, call: &Call) -> Call {
        self.cancel_number(call.number())
    }

    /// The same by its number, for another thread.
    pub(crate) fn cancel_number(&self, call: u64) -> Call {
        // A reply for the release, and one for the wait's own answer.
        self.desk.hurry(call, 2 * REPLY);
        let request = json!({ "do": "cancel", "call": call });
        self.call(request, Kind::Other, 2 * REPLY)
    }

    /// Gives a lock back.
    pub(crate) fn release(&self, grant: &Grant) -> Call {
        let number = grant.number;
        self.ledger.release(|it| it.number == number, false);
        let request = json!({ "do": "release", "grant": number.1 });
        self.call(request, Kind::Release(number), RELEASE)
    }

    /// A lock can be taken and given back, within so long from now on.
    pub(crate) fn works(&self, key: &str, limit: Duration) -> Verdict {
        let begun = Instant::now();
        loop {
            match self.acquire(key).ask().answer()? {
                Answer::Grant(grant) => return self.release(&grant).ok(),
                other => {
                    let (time, limit) = (begun.elapsed(), limit + lateness(begun));
                    ensure!(time <= limit, "{time:.1?} later {key}: {other}");
                    thread::sleep(ms(20));
                }
            }
        }
    }

    /// Whether the client says, having asked the server, that it holds a lock.
    pub(crate) fn check(&self, grant: &Grant) -> Verdict<bool> {
        Ok(self.ask_to_check(grant)?.is_ok())
    }

    /// A check, which says that the lock is held, or what it says instead.
    fn ask_to_check(&self, grant: &Grant) -> Verdict<Result<(), Answer>> {
        let request = json!({ "do": "check", "grant": grant.number.1 });
        let answer = self.call(request, Kind::Other, REPLY).answer()?;
        match &answer {
            Answer::Ok(value) if value["held"] == true || value["ok"]["held"] == true => {
                self.ledger.said_to_be_held(grant.number);
                Ok(Ok(()))
            }
            _ => Ok(Err(answer)),
        }
    }

    /// Several checks of a lock are under way all the time while this is done, and each says that it is held.
    pub(crate) fn holds_throughout(
        &self,
        grant: &Grant,
        when: &str,
        work: impl FnOnce(),
    ) -> Verdict {
        const AT_ONCE: usize = 4;
        let is_over = AtomicBool::new(false);
        let check_until_over = || {
            while !is_over.load(SeqCst) {
                self.still_holds(grant, when)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let checks: [_; AT_ONCE] = std::array::from_fn(|_| scope.spawn(check_until_over));
            let worked = catch_unwind(AssertUnwindSafe(work));
            is_over.store(true, SeqCst);
            let mut checks = checks.into_iter().map(|it| it.join().expect("a check"));
            let checked = checks.try_for_each(|checked| checked);
            worked.map_err(|panic| Failure::from_panic(panic.as_ref()))?;
            checked
        })
    }

    /// Freezes.
    pub(crate) fn stall(&self, time: Duration) -> Call {
        self.desk.stalls(time);
        let request = json!({ "do": "stall", "ms": time.as_millis() });
        self.call(request, Kind::Other, time)
    }

    /// Forks.
    pub(crate) fn fork(&self) -> Verdict {
        let request = json!({ "do": "fork" });
        self.call(request, Kind::Other, ms(10_000)).ok()
    }

    /// Closes a `Locks`, which gives back all that came from it.
    pub(crate) fn close(&self, locks: &str) -> Call {
        let index = self.index;
        self.ledger
            .release(|it| it.number.0 == index && it.locks == locks, false);
        let request = json!({ "do": "close", "locks": locks });
        self.call(request, Kind::Close(locks.to_owned()), RELEASE)
    }

    /// Waits until the loss of a lock has been told, which must be within so long since then.
    pub(crate) fn loses(&self, grant: &Grant, since: Instant, limit: Duration) -> Verdict {
        let told = self.ledger.loss(grant, limit + MUCH_LATER);
        let key = &grant.key;
        let at = told.ok_or_else(|| format!("the loss of {key} was not told"))?;
        let took = at.saturating_duration_since(since);
        let limit = limit + lateness(since);
        ensure!(took <= limit, "{key}: after {took:.1?}, not {limit:.1?}");
        Ok(())
    }

    /// A grant of this worker has not been reported as lost.
    pub(crate) fn holds(&self, grant: &Grant) -> Verdict {
        let (lost, key) = (self.ledger.loss(grant, Duration::ZERO), &grant.key);
        ensure!(lost.is_none(), "{key} was reported as lost, and was not");
        Ok(())
    }

    /// It holds a lock, by its own word and by a check.
    pub(crate) fn still_holds(&self, grant: &Grant, when: &str) -> Verdict {
        self.holds(grant)?;
        match self.ask_to_check(grant)? {
            Ok(()) => Ok(()),
            Err(answer) => Err(format!("{} is lost {when}: {answer}", grant.key).into()),
        }
    }

    /// A check says that it holds a lock no more.
    pub(crate) fn no_longer_holds(&self, grant: &Grant) -> Verdict {
        let (held, key) = (self.check(grant)?, &grant.key);
        ensure!(!held, "a check says that {key} is held, and it is not");
        Ok(())
    }

    /// Ends its standard input, on which it ends at once and releases nothing.
    pub(crate) fn end(&self) -> Verdict {
        self.desk.expect_end();
        self.process.close_input();
        self.ended(ms(3000), "its input ended")
    }

    /// Sends the process a signal, as from a terminal.
    pub(crate) fn signal(&self, signal: Signal) {
        self.desk.expect_end();
        self.process.signal(signal);
    }

    /// Freezes the process until it is thawed.
    pub(crate) fn freeze(&self) {
        self.process.signal(Signal::STOP);
    }

    /// It continues.
    pub(crate) fn thaw(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Waits until the process has gone.
    pub(crate) fn ended(&self, limit: Duration, why: &str) -> Verdict {
        let otherwise = format!("the process is still there {limit:?} after {why}");
        until(limit, || !self.process.is_alive(), &otherwise)?;
        self.ledger.gone(self.index);
        Ok(())
    }

    /// Kills the process without a warning.
    pub(crate) fn kill(&self) -> Verdict {
        self.signal(Signal::KILL);
        self.ended(ms(2000), "it was killed")
    }

    /// Memory and threads.
    pub(crate) fn usage(&self) -> Usage {
        self.process.usage()
    }

    /// Every call has been answered that should have been by now.
    pub(crate) fn nothing_overdue(&self) {
        self.desk.overdue();
    }

    fn call(&self, request: Value, kind: Kind, limit: impl Into<Option<Duration>>) -> Call {
        let (call, line) = self.desk.open(request, kind, limit.into());
        self.process.write(&line);
        call
    }
}

/// The request for a `Locks`.
fn opening(locks: &str, site: &Site, password: Option<&str>) -> Value {
    json!({
        "do": "open", "name": locks, "server": site.address(), "service": "trial",
        "password": password, "reply_ms": REPLY.as_millis(),
    })
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.desk.expect_end();
    }
}
