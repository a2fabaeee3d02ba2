//! Another client's PINGs while the server works.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testbed::{Expect, Server, cmd, server_cpu};

use crate::servers::cpu_of;

const PAUSE: Duration = Duration::from_millis(5);

/// The longest PING, in two ways, both in milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Longest {
    /// From the call to the reply, the machine's other work included.
    pub(crate) time: f64,
    /// The most CPU that the server's main thread used between a call and its reply: how long the server
    /// itself held a client up, however busy the machine is. While it runs the kernel counts only at its
    /// ticks, so this may be off by one, which is some milliseconds.
    pub(crate) server: f64,
    /// The CPU of the server's main thread for the work and the PINGs, in nanoseconds.
    pub(crate) spent: f64,
}

/// The longest PING of a client of its own during `work`.
pub(crate) fn longest_ping_while(server: &Server, work: impl FnOnce()) -> Longest {
    let done = AtomicBool::new(false);
    let mut pinger = server.connection();
    thread::scope(|scope| {
        let longest = scope.spawn(|| {
            let (mut time, mut used) = (Duration::ZERO, Duration::ZERO);
            while !done.load(Ordering::Relaxed) {
                let before = server_cpu(server.pid());
                let start = Instant::now();
                cmd!(pinger, "PING").value();
                time = time.max(start.elapsed());
                used = used.max(server_cpu(server.pid()).saturating_sub(before));
                thread::sleep(PAUSE);
            }
            [time, used].map(|longest| longest.as_secs_f64() * 1000.0)
        });
        let spent = cpu_of(server, work);
        done.store(true, Ordering::Relaxed);
        let [time, server] = longest.join().expect("a pinger");
        Longest {
            time,
            server,
            spent,
        }
    })
}
