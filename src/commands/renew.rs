//! `LOCK.RENEW key owner [PX ms | EX s] [TOKEN token] [RAISE token]`

use super::SINCE;
use super::acquire::{LEASE, ONE_LEASE, ONE_TOKEN};
use super::arguments::{Arguments, once};
use crate::core::{self, Owner};
use crate::locks::{
    Event, Fault, LockKey, answer, now, refuse_on_replica, reply_grant, rules, with_token_clock,
};
use crate::server::{ArgKind, Argument, Command, Context, KeyUse, Spec, Text};
use crate::waiting;

pub(super) struct Renew;

impl Command for Renew {
    const SPEC: Spec = Spec {
        name: c"lock.renew",
        flags: c"write fast",
        categories: c"write fast",
        arity: -3,
        summary: c"Starts the lease of a held lock anew, and can raise the grant's fencing token. Returns the grant.",
        complexity: c"O(1)",
        since: SINCE,
        key: Some(KeyUse::Update),
        arguments: &[
            Argument::new(c"key", ArgKind::Key),
            Argument::new(c"owner", ArgKind::String),
            LEASE,
            Argument::after(c"TOKEN", c"token", ArgKind::Integer).optional(),
            Argument::after(c"RAISE", c"raised-token", ArgKind::Integer).optional(),
        ],
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, renew(context, arguments));
    }
}

fn parse<'call>(
    owner: Owner<'call>,
    arguments: &mut Arguments<'call>,
) -> Result<core::Renew<'call>, Fault> {
    let (mut lease, mut token, mut raise) = (None, None, None);
    while let Some(option) = arguments.next() {
        if option.eq_ignore_ascii_case(b"PX") {
            once(&mut lease, arguments.lease_ms()?, ONE_LEASE)?;
        } else if option.eq_ignore_ascii_case(b"EX") {
            once(&mut lease, arguments.lease_seconds()?, ONE_LEASE)?;
        } else if option.eq_ignore_ascii_case(b"TOKEN") {
            once(&mut token, arguments.token()?, ONE_TOKEN)?;
        } else if option.eq_ignore_ascii_case(b"RAISE") {
            let raised = arguments.raise()?;
            once(
                &mut raise,
                raised,
                c"ERR syntax error: RAISE is given twice",
            )?;
        } else {
            return Err(Fault::unknown_option(option));
        }
    }
    match (token, raise) {
        (token, None) => Ok(core::Renew::new(owner, lease, token)),
        (None, Some(_)) => Err(Fault::argument(
            c"ERR syntax error: RAISE needs TOKEN, the token to raise from",
        )),
        (Some(token), Some(raise)) => core::Renew::raise(owner, lease, token, raise).ok_or(
            Fault::argument(c"ERR RAISE takes a token that is not lower than that of TOKEN"),
        ),
    }
}

fn renew<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) -> Result<(), Fault> {
    refuse_on_replica(context)?;
    let (name, mut arguments) = Arguments::after_key(arguments)?;
    let owner = arguments.owner()?;
    let request = parse(owner, &mut arguments)?;
    waiting::settle(context, name);
    let key = LockKey::open(context, name);
    let held = key.held()?;
    let renewed = with_token_clock(|clock| {
        core::renew(held.as_ref(), &request, &rules(), now(context), clock)
    })?;
    let token = held.map(|held| held.grant.token);
    key.change(owner, renewed.change, Event::Renew);
    waiting::answered(context, name);
    if let Some(token) = token {
        waiting::raised(context, name, token, renewed.grant.token);
    }
    reply_grant(context, owner, renewed.grant);
    Ok(())
}
