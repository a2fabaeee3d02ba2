//! `LOCK.RENEW key owner [SHARED | LIMIT n] [PX ms | EX s] [SESSION id] [TOKEN token] [RAISE token]`

use redis_lock_core::parse::{self, SessionMove};

use super::session::{check_session, check_session_name};
use super::{SINCE, documented, key_and_words};
use crate::locks::{CommandError, Primary, answer_owner, reply_grant};
use crate::server::{Command, Context, KeyUse, Spec, Text};
use crate::sessions;
use crate::waiting::Lock;

pub(super) struct Renew;

impl Command for Renew {
    const SPEC: Spec = Spec {
        name: c"lock.renew",
        flags: c"write fast",
        categories: c"write fast",
        arity: -3,
        summary: c"Restarts the lease of a held lock, and can raise the grant's fencing token. Returns the grant.",
        complexity: c"O(1) for a lock with one holder, O(log(N)) for one with N, plus the grants and removals that it causes",
        since: SINCE,
        history: &[(c"0.3.0", c"Added the SHARED, LIMIT and SESSION options.")],
        key: Some(KeyUse::Update),
        arguments: || documented(parse::RENEW),
    };

    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]) {
        answer_owner(context, renew(context, arguments));
    }
}

fn renew<'call>(
    context: Context<'call>,
    arguments: &'call [Text<'call>],
) -> Result<(), CommandError> {
    let primary = Primary::check(context)?;
    let (name, mut words) = key_and_words(arguments)?;
    let call = parse::renew(&mut words)?;
    if let Some(moved) = call.session {
        check_session_name(name)?;
        if let SessionMove::Into(session) = moved {
            check_session(context, name, session)?;
        }
    }
    let membership = sessions::membership(call.session);
    let holder = Lock::open(primary, name).renew(&call.request, membership)?;
    let limit = call.request.limit().map(|_| holder.limit);
    reply_grant(context, holder.owner, holder.grant, limit);
    Ok(())
}
