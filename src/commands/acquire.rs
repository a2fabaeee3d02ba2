//! `LOCK.ACQUIRE key owner|* [PX ms | EX s] [BLOCK ms] [HOLDS n] [TOKEN token]`

use std::time::Duration;

use super::SINCE;
use super::arguments::{Arguments, once};
use crate::core::{self, Acquired, Holds, Lease, Owner, Token};
use crate::locks::{
    Event, Fault, LockKey, RandomOwner, answer, now, random_owner, refuse_on_replica, reply_grant,
    rules, with_token_clock,
};
use crate::server::{ArgKind, Argument, Command, Context, KeyUse, Spec, Text};
use crate::waiting::{self, Caller};

const ANY_OWNER: &[u8] = b"*";

pub(super) struct Acquire;

impl Command for Acquire {
    const SPEC: Spec = Spec {
        name: c"lock.acquire",
        flags: c"write deny-oom fast blocking",
        categories: c"write fast blocking",
        arity: -3,
        summary: c"Acquires a lock, or re-enters one that the owner holds, and returns the grant with its fencing token.",
        complexity: c"O(1)",
        since: SINCE,
        key: Some(KeyUse::Update),
        arguments: &[
            Argument::new(c"key", ArgKind::Key),
            Argument::new(c"owner", ArgKind::String),
            LEASE,
            Argument::after(c"BLOCK", c"wait-milliseconds", ArgKind::Integer).optional(),
            Argument::after(c"HOLDS", c"holds", ArgKind::Integer).optional(),
            Argument::after(c"TOKEN", c"token", ArgKind::Integer).optional(),
        ],
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer(context, acquire(context, arguments));
    }
}

/// `[PX milliseconds | EX seconds]`, here and in `LOCK.RENEW`.
pub(super) const LEASE: Argument = Argument::new(
    c"lease",
    ArgKind::OneOf(&[
        Argument::after(c"PX", c"milliseconds", ArgKind::Integer),
        Argument::after(c"EX", c"seconds", ArgKind::Integer),
    ]),
)
.optional();

#[derive(Default)]
struct Options {
    lease: Option<Lease>,
    wait_ms: Option<u64>,
    holds: Option<Holds>,
    token: Option<Token>,
}

fn parse(arguments: &mut Arguments<'_>) -> Result<Options, Fault> {
    let mut options = Options::default();
    while let Some(option) = arguments.next() {
        if option.eq_ignore_ascii_case(b"PX") {
            once(&mut options.lease, arguments.lease_ms()?, ONE_LEASE)?;
        } else if option.eq_ignore_ascii_case(b"EX") {
            once(&mut options.lease, arguments.lease_seconds()?, ONE_LEASE)?;
        } else if option.eq_ignore_ascii_case(b"BLOCK") {
            let wait = arguments.wait_ms()?;
            once(
                &mut options.wait_ms,
                wait,
                c"ERR syntax error: BLOCK is given twice",
            )?;
        } else if option.eq_ignore_ascii_case(b"HOLDS") {
            let holds = arguments.wanted_holds()?;
            once(
                &mut options.holds,
                holds,
                c"ERR syntax error: HOLDS is given twice",
            )?;
        } else if option.eq_ignore_ascii_case(b"TOKEN") {
            let token = arguments.token()?;
            once(&mut options.token, token, ONE_TOKEN)?;
        } else {
            return Err(Fault::unknown_option(option));
        }
    }
    Ok(options)
}

pub(super) const ONE_LEASE: &std::ffi::CStr =
    c"ERR syntax error: one lease at most, as PX milliseconds or EX seconds";
pub(super) const ONE_TOKEN: &std::ffi::CStr = c"ERR syntax error: TOKEN is given twice";

fn acquire<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) -> Result<(), Fault> {
    refuse_on_replica(context)?;
    let (name, mut arguments) = Arguments::after_key(arguments)?;
    let named = arguments.owner()?;
    let options = parse(&mut arguments)?;
    if named.bytes() != ANY_OWNER {
        return acquire_as(context, name, named, &options);
    }
    if options.holds.is_some() || options.token.is_some() {
        return Err(Fault::argument(
            c"ERR HOLDS and TOKEN take an owner by name: a call with the owner * cannot be repeated",
        ));
    }
    let random: RandomOwner = random_owner(context);
    let owner = random
        .owner()
        .ok_or(Fault::argument(c"ERR no owner could be made"))?;
    acquire_as(context, name, owner, &options)
}

fn acquire_as<'call>(
    context: Context<'call>,
    name: Text<'call>,
    owner: Owner<'_>,
    options: &Options,
) -> Result<(), Fault> {
    let request = core::Acquire {
        owner,
        lease: options.lease,
        holds: options.holds,
        token: options.token,
    };
    waiting::settle(context, name);
    let mut key = LockKey::open(context, name);
    if key.record()?.is_none() && waiting::waiting(context, name) > 0 {
        // Nobody slips past the queue.
        drop(key);
        waiting::serve(context, name, Caller::Command);
        key = LockKey::open(context, name);
    }
    let held = key.held()?;
    let acquired = with_token_clock(|clock| {
        let (rules, now) = (rules(), now(context));
        if held.is_none() && waiting::waiting(context, name) > 0 {
            // Nothing may be granted to those in the queue now, and so not to this call either.
            core::acquire(None, &request, &rules, now, &mut clock.clone()).map(|_| Acquired::Busy)
        } else {
            core::acquire(held.as_ref(), &request, &rules, now, clock)
        }
    })?;
    match acquired {
        Acquired::New(grant, change) | Acquired::Again(grant, change) => {
            key.change(owner, change, Event::Acquire);
            waiting::answered(context, name);
            reply_grant(context, owner, grant);
        }
        Acquired::Busy => match options.wait_ms {
            Some(wait_ms) if context.flags().may_block() => {
                drop(key);
                let wait = (wait_ms > 0).then(|| Duration::from_millis(wait_ms));
                waiting::join(context, name, &request, wait)?;
            }
            _ => context.reply_null(),
        },
    }
    Ok(())
}
