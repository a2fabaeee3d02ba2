//! A session with very many grants.

use testbed::{Expect, Session, at_once, await_renewals, run};

const MANY: usize = 10_000;
#[test]
fn one_is_lost_of_ten_thousand_and_the_rest_moves_to_another_session() {
    let (server, mut c, mut session) = Session::opened();
    let granted = session.acquire_all(&mut c, (0..MANY).map(|n| format!("k{n} a PX 6000")));
    let tokens: Vec<_> = granted.iter().map(|grant| grant.token).collect();
    let many = i64::try_from(MANY).expect("a number");
    assert_eq!(server.count("session_grants"), many);
    await_renewals(&server, 2 * many);
    assert_eq!(run(&mut c, "DBSIZE").int(), many);
    assert_eq!(server.count("session_losses"), 0);

    run(&mut c, "DEL k5000").int();
    let polled = session.poll();
    assert_eq!(polled.grants, many - 1);
    assert_eq!(
        polled.events,
        [format!("1 lost k5000 a {} deleted", tokens[5000])]
    );

    let mut other = Session::open(&server);
    let move_it = |(n, token)| format!("LOCK.RENEW k{n} a TOKEN {token} PX 60000 SESSION ID");
    let renewals = tokens.iter().enumerate().map(move_it);
    let renewals: Vec<_> = renewals.map(|words| other.line(&words)).collect();
    for (n, reply) in at_once(&mut c, &renewals).into_iter().enumerate() {
        match n {
            5000 => drop(reply.refused("NOTHELD")),
            _ => assert_eq!(reply.grant().token, tokens[n]),
        }
    }
    assert_eq!(other.poll().grants, many - 1);
    assert_eq!(session.poll().grants, 0);
}
