//! The parsed words of an acquire, at the limits of the values of each word.

use super::tests::{error, lease, owner, words};
use super::{Acquire, Wait, acquire};
use crate::sessions::SessionId;
use crate::{Holds, Limit, Token};

/// An acquire with no option.
fn plain() -> Acquire<'static> {
    Acquire {
        owner: Some(owner("ann")),
        limit: None,
        lease: None,
        wait: None,
        session: None,
        holds: None,
        token: None,
    }
}

#[test]
fn an_acquire_is_parsed() {
    let plain = plain();
    for (text, wanted) in [
        ("ann", plain),
        (
            "*",
            Acquire {
                owner: None,
                ..plain
            },
        ),
        (
            "ann shared",
            Acquire {
                limit: Some(Limit::NONE),
                ..plain
            },
        ),
        (
            "ann LIMIT 0",
            Acquire {
                limit: Some(Limit::NONE),
                ..plain
            },
        ),
        (
            "ann limit 2147483647",
            Acquire {
                limit: Some(Limit::MAX),
                ..plain
            },
        ),
        (
            "ann px 90000",
            Acquire {
                lease: lease(90_000),
                ..plain
            },
        ),
        (
            "ann EX 90",
            Acquire {
                lease: lease(90_000),
                ..plain
            },
        ),
        (
            "ann HOLDS 2147483647",
            Acquire {
                holds: Some(Holds::MAX),
                ..plain
            },
        ),
        (
            "ann TOKEN 9007199254740991",
            Acquire {
                token: Token::new(9_007_199_254_740_991),
                ..plain
            },
        ),
    ] {
        assert_eq!(acquire(&mut words(text)), Ok(wanted), "{text}");
    }
}

#[test]
fn an_acquire_that_waits_is_parsed() {
    let plain = plain();
    for (text, wanted) in [
        (
            "ann BLOCK 0",
            Acquire {
                wait: Some(Wait::Block(0)),
                ..plain
            },
        ),
        (
            "ann block 315360000000",
            Acquire {
                wait: Some(Wait::Block(315_360_000_000)),
                ..plain
            },
        ),
        (
            "ann queue 5 SESSION 7 HOLDS 2147483647",
            Acquire {
                wait: Some(Wait::Queue(5)),
                session: SessionId::new(7),
                holds: Some(Holds::MAX),
                ..plain
            },
        ),
    ] {
        assert_eq!(acquire(&mut words(text)), Ok(wanted), "{text}");
    }
}

#[test]
fn a_queued_acquire_is_parsed() {
    let call = acquire(&mut words("ann queue 5 SESSION 7 HOLDS 2147483647"));
    let call = call.unwrap();
    assert_eq!(call.wait, Some(Wait::Queue(5)));
    let session = SessionId::new(7).unwrap();
    assert_eq!(call.repeats(), Some((session, Holds::MAX)));
    let blocked = acquire(&mut words("ann BLOCK 5 SESSION 7 HOLDS 1")).unwrap();
    assert_eq!(blocked.repeats(), None);
}

#[test]
fn a_wrong_acquire_is_refused() {
    for (text, part) in [
        ("", "the owner must be"),
        ("ann PX 0", "PX takes"),
        ("ann PX 90001", "PX takes"),
        ("ann EX 91", "EX takes"),
        ("ann EX 18446744073709551", "EX takes"),
        ("ann PX", "PX takes"),
        ("ann PX 1 EX 1", "only one of PX and EX"),
        ("ann BLOCK -1", "BLOCK takes"),
        ("ann BLOCK 315360000001", "BLOCK takes"),
        ("ann BLOCK 1 BLOCK 1", "only one of BLOCK and QUEUE"),
        ("ann QUEUE 1 BLOCK 1", "only one of BLOCK and QUEUE"),
        ("ann QUEUE -1", "QUEUE takes"),
        ("ann QUEUE 315360000001", "QUEUE takes"),
        ("ann QUEUE 1 HOLDS 1", "QUEUE needs"),
        ("ann QUEUE 1 SESSION 7", "QUEUE needs"),
        ("ann QUEUE 1 SESSION 7 HOLDS 1 TOKEN 1", "QUEUE needs"),
        ("ann HOLDS 0", "HOLDS takes the number of holds to reach"),
        (
            "ann HOLDS 2147483648",
            "HOLDS takes the number of holds to reach",
        ),
        (
            "ann HOLDS 4294967297",
            "HOLDS takes the number of holds to reach",
        ),
        ("ann HOLDS 1 HOLDS 1", "HOLDS is given twice"),
        ("ann TOKEN 0", "TOKEN takes"),
        ("ann TOKEN 9007199254740992", "TOKEN takes"),
        ("ann TOKEN 1 TOKEN 1", "TOKEN is given twice"),
        ("* HOLDS 1", "need a named owner"),
        ("* TOKEN 1", "need a named owner"),
        ("ann WAIT 1", "unknown option 'WAIT'"),
    ] {
        let error = error(acquire(&mut words(text)));
        assert!(
            error.starts_with("ERR ") && error.contains(part),
            "{text}: {error}"
        );
    }
}
