//! A server's side of the protocol: the module's own rules, from its core.

use redis_lock_core::{
    Acquire, Deadline, Grant, Holder, Holders, Holds, Lease, Limit, Owner, Renew, Rules, Token,
    TokenClock, UnixTime, acquire, renew,
};

use crate::state::{self, Server, owner};

/// No raise is too far ahead of time: `AHEAD` changes nothing, as a lost message does.
const RULES: Rules = Rules {
    default_lease: Lease::MAX,
    max_token_lead_ms: u64::MAX,
    max_holders: 1,
};

/// The bytes of each owner.
const OWNERS: [[u8; 1]; 8] = [[0], [1], [2], [3], [4], [5], [6], [7]];

/// LOCK.ACQUIRE key owner HOLDS 1, at a time that is also a token. The token of the grant that this
/// owner has now, if it has one.
pub(crate) fn acquired(server: &mut Server, by: u8, time: u8) -> Option<state::Token> {
    let request = Acquire {
        owner: owner_of(by),
        limit: Limit::ONE,
        lease: None,
        holds: Some(Holds::ONE),
        token: None,
    };
    let mut clock = clock_of(server);
    let now = UnixTime::from_micros(time.into());
    let holders = holders(server);
    let granted = acquire(holders.as_ref(), &request, false, &RULES, now, &mut clock).ok()??;
    let token = number(granted.holder.grant.token);
    if granted.before.is_none() {
        server.owner = by;
        server.token = token;
        server.last = clock.last().map_or(0, number);
        server.renewed = false;
    }
    Some(token)
}

/// LOCK.RENEW key owner TOKEN token RAISE raise. Is it acknowledged?
pub(crate) fn raised(
    server: &mut Server,
    by: u8,
    token: state::Token,
    raise: state::Token,
) -> bool {
    let Some(request) = Renew::raise(owner_of(by), None, core_token(token), core_token(raise))
    else {
        return false;
    };
    let mut clock = clock_of(server);
    let now = UnixTime::from_micros(0);
    let Ok(renewed) = renew(holders(server).as_ref(), &request, &RULES, now, &mut clock) else {
        return false;
    };
    server.token = number(renewed.holder.grant.token);
    server.last = clock.last().map_or(0, number);
    server.renewed = true;
    true
}

/// The lock becomes free, by release, expiry or deletion.
pub(crate) fn freed(server: &mut Server) {
    server.owner = owner::FREE;
    server.token = 0;
    server.renewed = false;
    server.away = false;
}

fn holders(server: &Server) -> Option<Holders<'static>> {
    (server.owner != owner::FREE).then(|| {
        Holders::Exclusive(Holder {
            owner: owner_of(server.owner),
            grant: Grant {
                token: core_token(server.token),
                holds: Holds::ONE,
                lease: Lease::MAX,
            },
            limit: Limit::ONE,
            end: Deadline::Never,
        })
    })
}

fn clock_of(server: &Server) -> TokenClock {
    TokenClock::after(Token::new(server.last.into()))
}

fn owner_of(number: u8) -> Owner<'static> {
    Owner::new(&OWNERS[usize::from(number)]).expect("one byte is an owner")
}

fn core_token(token: state::Token) -> Token {
    Token::new(token.into()).expect("a token is not 0")
}

fn number(token: Token) -> state::Token {
    state::Token::try_from(token.number()).expect("the model's tokens are small")
}
