//! The server's CPU for a grant in a session, beside that of a blocked call.

use redis::{Cmd, Connection};
use testbed::{Expect, Server, Talk, eventually, waiters};

use crate::part::{Goal, Part};
use crate::scale::Scale;
use crate::servers::{Program, cpu_of, for_each};
use crate::session::{Granted, HOUR_MS, Session, post_all, queue, release};
use crate::stats::{Rounds, interleave};
use crate::table::Table;
use crate::ways::command;

const CONTENDERS: usize = 64;

const NAMES: [&str; 3] = [
    "64 blocked clients, one lock",
    "64 calls of a session, one lock",
    "64 locks of a session, all between two POLLs",
];

/// How the contenders wait.
enum Ring {
    /// Each on its own connection.
    Blocked(Vec<Connection>),
    /// All in one session, with one connection for the POLLs and one for all else.
    Queued(Session, Vec<Granted>, Connection),
    /// Two for each of as many locks, which are all handed over between two POLLs.
    AtOnce(Session, Vec<Granted>),
}

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let mut rings = [blocked, queued, at_once].map(|ring| {
        let server = program.start();
        let ring = ring(&server);
        (server, ring)
    });
    let grants = scale.hand_offs.next_multiple_of(CONTENDERS);
    let figures = interleave(scale.rounds, &mut rings, |(server, ring)| {
        [cpu_of(server, || ring.turn(grants)) / 1000.0 / grants as f64]
    });
    let table = Table::new(
        format!("A grant to a queued call: {}", program.version),
        "Server CPU of a release, the grant that follows, and the releaser's new wait; and its ratio to that of \
         blocked calls.",
        &["us a grant", "of blocked"],
    );
    let table = table.rows_over_first(NAMES, &figures);
    let ratio = |[cost]: &[Rounds; 1]| cost.over(&figures[0][0]).spread();
    let goal = |index: usize, limit| {
        let what = format!("CPU a grant of blocked, {}", NAMES[index]);
        Goal::at_most(what, limit, ratio(&figures[index]))
    };
    Part::new(table, vec![goal(1, 1.2), goal(2, 1.0)])
}

impl Ring {
    /// So many grants, each released, and the contender waits again.
    fn turn(&mut self, grants: usize) {
        let rounds = 0..grants / CONTENDERS;
        match self {
            Self::Blocked(clients) => {
                for number in rounds.flat_map(|_| 0..CONTENDERS) {
                    clients[number].receive().grant();
                    let release = command(&["LOCK.RELEASE", "lock", &owner(number)], &[]);
                    post_all(&mut clients[number], &[release, wait(number)]);
                    clients[number].receive().int();
                }
            }
            Self::Queued(session, granted, connection) => {
                session.is_here();
                for _ in 0..grants {
                    let calls = again(session.id, &granted[0]);
                    session.post(&[]);
                    post_all(connection, &calls);
                    for _ in calls {
                        connection.receive().int();
                    }
                    *granted = session.events();
                }
            }
            Self::AtOnce(session, granted) => {
                session.is_here();
                for _ in rounds {
                    let id = session.id;
                    let calls: Vec<_> = granted.iter().flat_map(|grant| again(id, grant)).collect();
                    session.post(&calls);
                    for _ in calls {
                        session.connection.receive().int();
                    }
                    *granted = session.events();
                    assert_eq!(granted.len(), CONTENDERS);
                }
            }
        }
    }
}

fn blocked(server: &Server) -> Ring {
    let clients = (0..CONTENDERS).map(|number| {
        let mut client = server.connection();
        client.post(&wait(number));
        // Each waits before the next one joins.
        eventually(
            || waiters(&mut server.connection(), "lock").len() == number,
            "a client to wait",
        );
        client
    });
    Ring::Blocked(clients.collect())
}

fn queued(server: &Server) -> Ring {
    let (session, granted) = open(server, 1, CONTENDERS);
    Ring::Queued(session, granted, server.connection())
}

fn at_once(server: &Server) -> Ring {
    let (session, granted) = open(server, CONTENDERS, 2 * CONTENDERS);
    Ring::AtOnce(session, granted)
}

/// A session with so many calls for so many locks, each of which was granted to the first.
fn open(server: &Server, locks: usize, calls: usize) -> (Session, Vec<Granted>) {
    let mut session = Session::open(server);
    let (id, connection) = (session.id, &mut session.connection);
    let key = |number: usize| format!("lock:{}", number % locks);
    for_each(connection, 0..locks, |number| {
        command(&["LOCK.ACQUIRE", &key(number), "first"], &[])
    });
    for_each(connection, 0..calls, |number| {
        queue(id, &key(number), &owner(number))
    });
    for_each(connection, 0..locks, |number| {
        command(&["LOCK.RELEASE", &key(number), "first"], &[])
    });
    session.post(&[]);
    let granted = session.events();
    (session, granted)
}

fn owner(number: usize) -> String {
    format!("contender-{number:03}")
}

fn wait(number: usize) -> Cmd {
    let words = ["LOCK.ACQUIRE", "lock", &owner(number), "PX"];
    let mut call = command(&words, &[HOUR_MS]);
    call.arg("BLOCK").arg(0);
    call
}

/// The release of a grant, and the contender's next call.
fn again(session: i64, grant: &Granted) -> [Cmd; 2] {
    [
        release(session, grant),
        queue(session, &grant.key, &grant.owner),
    ]
}
