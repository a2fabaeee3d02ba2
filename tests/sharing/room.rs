//! The reply to a call with a limit. Who has room is shown in the core (`properties`).

use testbed::{Expect, run, started, wait};

#[test]
fn the_grant_has_a_fifth_part_where_the_call_asked_for_a_limit() {
    let (server, mut c) = started();
    for (words, limit) in [
        ("LOCK.ACQUIRE k a SHARED", Some(0)),
        ("LOCK.ACQUIRE k b LIMIT 7", Some(7)),
        ("LOCK.ACQUIRE k a LIMIT 9 HOLDS 1", Some(9)),
        ("LOCK.RENEW k b", None),
        ("LOCK.RENEW k b SHARED", Some(0)),
        ("LOCK.RENEW k b LIMIT 5", Some(5)),
        ("LOCK.RENEW k a LIMIT 2147483647", Some(2_147_483_647)),
        ("LOCK.ACQUIRE l a", None),
        ("LOCK.ACQUIRE l a LIMIT 1", Some(1)),
        ("LOCK.ACQUIRE l a SHARED", Some(1)),
        ("LOCK.ACQUIRE l a LIMIT 5", Some(1)),
        ("LOCK.RENEW l a LIMIT 1", Some(1)),
        ("LOCK.RENEW l a", None),
    ] {
        assert_eq!(run(&mut c, words).grant().limit, limit, "{words}");
    }
    let (mut asked, mut plain) = (
        wait(&server, "l b SHARED BLOCK 0"),
        wait(&server, "l d BLOCK 0"),
    );
    run(&mut c, "LOCK.RELEASE l a ALL").int();
    assert_eq!(asked.granted().limit, Some(0));
    run(&mut c, "LOCK.RELEASE l b").int();
    assert_eq!(plain.granted().limit, None);
}
