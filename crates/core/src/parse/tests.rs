//! The parsed words of each call, at the limits of the values of each word. Those of an acquire are in
//! `acquire_tests.rs`.

use super::words::Words;
use super::{self as parsed};
use super::{Malformed, Renew as Renewal, acquire, clock, count, effect, fence, release, renew};
use super::{SessionMove, SessionOpen, session_grants, session_id, session_open, session_poll};
use crate::sessions::{SessionId, SessionTimeout};
use crate::{
    Deadline, EffectBuffer, EffectError, Grant, Holder, Holds, Lease, Limit, LockChange, Owner,
    Release, ReleaseAmount, Renew, Token,
};

const MAX_LEASE_MS: u64 = 90_000;

pub(super) fn words(text: &str) -> Words<impl Iterator<Item = &[u8]>> {
    let max_lease = Lease::from_millis(MAX_LEASE_MS).unwrap();
    Words::new(text.split_whitespace().map(str::as_bytes), max_lease)
}

pub(super) fn owner(name: &str) -> Owner<'_> {
    Owner::new(name.as_bytes()).unwrap()
}

pub(super) fn lease(ms: u64) -> Option<Lease> {
    Lease::from_millis(ms)
}

pub(super) fn error<T>(outcome: Result<T, Malformed>) -> String {
    let Malformed(text) = outcome.err().expect("an error");
    text.into_owned().into_string().unwrap()
}

#[test]
fn a_release_is_parsed() {
    let of = |amount, token| {
        let request = Release {
            owner: owner("ann"),
            amount,
            token,
        };
        Ok(parsed::Release {
            request,
            session: None,
        })
    };
    for (text, wanted) in [
        ("ann", of(ReleaseAmount::One, None)),
        ("ann all", of(ReleaseAmount::All, None)),
        ("ann HOLDS 0", of(ReleaseAmount::DownTo(0), None)),
        (
            "ann HOLDS 2147483647",
            of(ReleaseAmount::DownTo(2_147_483_647), None),
        ),
        ("ann TOKEN 7", of(ReleaseAmount::One, Token::new(7))),
    ] {
        assert_eq!(release(&mut words(text)), wanted, "{text}");
    }
    for (text, part) in [
        ("ann HOLDS -1", "HOLDS takes the number of holds to keep"),
        (
            "ann HOLDS 2147483648",
            "HOLDS takes the number of holds to keep",
        ),
        ("ann ALL HOLDS 1", "only one of ALL and HOLDS"),
        ("ann EX 1", "unknown option 'EX'"),
    ] {
        let error = error(release(&mut words(text)));
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_renewal_is_parsed() {
    let (seven, eight) = (Token::new(7).unwrap(), Token::new(8).unwrap());
    for (text, wanted) in [
        ("ann", Some(Renew::new(owner("ann"), None, None, None))),
        (
            "ann EX 2 TOKEN 7",
            Some(Renew::new(owner("ann"), None, lease(2000), Some(seven))),
        ),
        (
            "ann TOKEN 7 RAISE 8",
            Renew::raise(owner("ann"), None, seven, eight),
        ),
        (
            "ann RAISE 7 TOKEN 7",
            Renew::raise(owner("ann"), None, seven, seven),
        ),
    ] {
        let wanted = wanted.map(|request| Renewal {
            request,
            session: None,
        });
        assert_eq!(renew(&mut words(text)).ok(), wanted, "{text}");
    }
    for (text, limit) in [
        ("ann SHARED", Limit::NONE),
        ("ann limit 5 TOKEN 7", Limit::new(5).unwrap()),
        ("ann LIMIT 1", Limit::ONE),
    ] {
        let limits = renew(&mut words(text)).map(|renewal| renewal.request.limit());
        assert_eq!(limits, Ok(Some(limit)), "{text}");
    }
    for (text, part) in [
        ("ann RAISE 8", "RAISE needs TOKEN"),
        ("ann TOKEN 8 RAISE 7", "at least as high as that of TOKEN"),
        ("ann TOKEN 7 RAISE 0", "RAISE takes a fencing token"),
        ("ann TOKEN 7 RAISE 8 RAISE 8", "RAISE is given twice"),
        ("ann HOLDS 1", "unknown option 'HOLDS'"),
        ("ann SHARED LIMIT 5", "only one of SHARED and LIMIT"),
        ("ann LIMIT -1", "LIMIT takes the maximum number of holders"),
        ("ann LIMIT", "LIMIT takes the maximum number of holders"),
        ("ann TOKEN 7 RAISE 8 SHARED", "with SHARED or LIMIT"),
        ("ann LIMIT 1 RAISE 8 TOKEN 7", "with SHARED or LIMIT"),
    ] {
        let error = error(renew(&mut words(text)));
        assert!(error.contains(part), "{text}: {error}");
    }
}

fn session(id: u64) -> SessionId {
    SessionId::new(id).unwrap()
}

#[test]
fn the_session_of_a_grant_is_parsed() {
    let of_acquire = |text| acquire(&mut words(text)).map(|call| call.session);
    let of_renew = |text| renew(&mut words(text)).map(|call| call.session);
    let of_release = |text| release(&mut words(text)).map(|call| call.session);
    assert_eq!(of_acquire("ann session 7"), Ok(Some(session(7))));
    assert_eq!(
        of_renew("ann PX 1000 SESSION 9007199254740991"),
        Ok(Some(SessionMove::Into(SessionId::MAX)))
    );
    assert_eq!(of_renew("ann SESSION 0 PX 1"), Ok(Some(SessionMove::Out)));
    assert_eq!(of_release("ann SESSION 7 TOKEN 8"), Ok(Some(session(7))));
    for (text, part) in [
        ("ann SESSION", "SESSION takes"),
        ("ann SESSION -1", "SESSION takes"),
        ("ann SESSION 9007199254740992", "SESSION takes"),
        ("ann SESSION 7 SESSION 7", "SESSION is given twice"),
        ("ann SESSION 7 PX 999", "a lease of at least 1000"),
    ] {
        for error in [error(of_acquire(text)), error(of_renew(text))] {
            assert!(error.contains(part), "{text}: {error}");
        }
    }
    for error in [
        error(of_acquire("ann SESSION 0")),
        error(of_release("ann TOKEN 7 SESSION 0")),
    ] {
        assert!(error.contains("0 is allowed in LOCK.RENEW only"), "{error}");
    }
    assert!(error(of_acquire("* SESSION 7")).contains("need a named owner"));
    assert!(error(of_release("ann SESSION 7")).contains("SESSION needs TOKEN"));
}

#[test]
fn the_subcommands_of_sessions_are_parsed() {
    let timeout = |ms| SessionTimeout::from_millis(ms).unwrap();
    for (text, timeout, name) in [
        ("", timeout(30_000), &b""[..]),
        ("timeout 1000", timeout(1000), b""),
        ("NAME me TIMEOUT 86400000", timeout(86_400_000), b"me"),
    ] {
        let opened = session_open(&mut words(text));
        assert_eq!(opened, Ok(SessionOpen { timeout, name }), "{text}");
    }
    let longest = format!("NAME {}", "n".repeat(256));
    assert!(session_open(&mut words(&longest)).is_ok());
    let longer = format!("{longest}n");
    for (text, part) in [
        ("TIMEOUT 999", "TIMEOUT takes"),
        ("TIMEOUT 86400001", "TIMEOUT takes"),
        ("TIMEOUT 1000 TIMEOUT 1000", "TIMEOUT is given twice"),
        ("NAME", "NAME takes"),
        (&longer, "NAME takes"),
        ("NAME a NAME a", "NAME is given twice"),
        ("BLOCK 1", "unknown option 'BLOCK'"),
    ] {
        let error = error(session_open(&mut words(text)));
        assert!(error.contains(part), "{text}: {error}");
    }
    assert_eq!(session_poll(&mut words("7")), Ok((session(7), None)));
    let polled = session_poll(&mut words("7 block 315360000000"));
    assert_eq!(polled, Ok((session(7), Some(315_360_000_000))));
    for (text, part) in [
        ("", "the session id must be"),
        ("7 BLOCK 315360000001", "BLOCK takes"),
        ("7 BLOCK 1 BLOCK 1", "BLOCK is given twice"),
        ("7 COUNT 1", "unknown option 'COUNT'"),
    ] {
        let error = error(session_poll(&mut words(text)));
        assert!(error.contains(part), "{text}: {error}");
    }
    let grants = session_grants(&mut words("7 COUNT 5"));
    assert_eq!(grants, Ok((session(7), Some(5))));
    assert_eq!(session_id(&mut words("1")), Ok(session(1)));
    assert!(error(session_id(&mut words("0"))).contains("the session id must be"));
}

#[test]
fn an_effect_is_parsed() {
    let lock = Holder {
        owner: owner("ann"),
        grant: Grant {
            token: Token::MAX,
            holds: Holds::ONE,
            // Longer than may be asked for: that setting is not the primary's.
            lease: lease(MAX_LEASE_MS + 1).unwrap(),
        },
        limit: Limit::ONE,
        end: Deadline::Never,
    };
    let mut buffer = EffectBuffer::new();
    let bytes = lock.effect(false, &mut buffer).bytes();
    let read = |words: &[&[u8]]| {
        let words = words.iter().copied();
        effect(&mut Words::new(words, lease(MAX_LEASE_MS).unwrap()))
            .map(|change| change == (LockChange::Exclusive(lock), false))
    };
    assert_eq!(read(&[bytes]), Ok(true));
    assert_eq!(read(&[bytes, b"later"]), Ok(true));
    assert_eq!(read(&[]), Err(EffectError::Damaged));
}

#[test]
fn a_count_a_fence_and_the_clock_are_parsed() {
    assert_eq!(count(&mut words("")), Ok(None));
    assert_eq!(count(&mut words("count 12")), Ok(Some(12)));
    for text in ["COUNT 0", "COUNT -1", "COUNT"] {
        assert!(
            error(count(&mut words(text))).contains("COUNT takes"),
            "{text}"
        );
    }
    assert!(error(count(&mut words("COUNT 1 COUNT 1"))).contains("given twice"));
    assert!(error(count(&mut words("LIMIT 1"))).contains("unknown option 'LIMIT'"));

    assert_eq!(fence(&mut words("")), Ok(None));
    assert_eq!(fence(&mut words("7")), Ok(Token::new(7)));
    assert!(error(fence(&mut words("7 8"))).contains("wrong number of arguments"));
    assert!(error(fence(&mut words("0"))).contains("the token must be a fencing token"));

    assert_eq!(clock(&mut words("7 later")).ok(), Token::new(7));
    assert!(error(clock(&mut words("0"))).contains("the token must be"));
}

#[test]
fn an_unknown_option_is_quoted_escaped_and_truncated() {
    let long = "x".repeat(33);
    let text = format!("ann {long}");
    let shown = format!("ERR syntax error: unknown option '{}'", &long[..32]);
    assert_eq!(error(release(&mut words(&text))), shown);
    assert!(error(release(&mut words("ann \u{7}\0"))).contains("'\\x07\\x00'"));
}
