//! Nothing is left of waiters that have gone.

use testbed::{Expect, Server, Talk, blocked_clients, eventually, line, run};

/// Makes so many connections wait by this command; then they are gone.
fn crowd(server: &Server, size: usize, call: impl Fn(usize) -> redis::Cmd) {
    let mut crowd: Vec<_> = (0..size).map(|_| server.connection()).collect();
    for (number, waiter) in crowd.iter_mut().enumerate() {
        waiter.post(&call(number));
    }
    let all = i64::try_from(size).expect("small");
    eventually(|| blocked_clients(server) == all, "all to wait");
    drop(crowd);
    eventually(
        || blocked_clients(server) == 0 && server.info_field("clients", "connected_clients") == "2",
        "all to be gone",
    );
}

#[test]
fn what_a_crowd_of_waiters_took_is_given_back() {
    /// The tables of the calls that wait took some ten times as much.
    const LEFT: i64 = 16 * 1024;
    const MANY: usize = 1000;
    let server = Server::builder().config("maxclients", "2000").start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    // What is kept after any clients that waited, few or many.
    let call = |n| line(&format!("LOCK.ACQUIRE k owner-{n} BLOCK 0"));
    crowd(&server, MANY, |_| line("BLPOP list 0"));
    crowd(&server, 50, call);
    let mut before = i64::MAX;
    for _ in 0..20 {
        before = before.min(server.number("memory", "used_memory"));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    crowd(&server, MANY, call);
    let mut after = i64::MAX;
    eventually(
        || {
            after = after.min(server.number("memory", "used_memory"));
            after <= before + LEFT
        },
        &format!("the memory to be back: {before} bytes before"),
    );
    println!("{before} bytes before, {after} after");
}
