//! The token clock and how it is persisted, the wall clock and the monotonic clock.
//!
//! Every token that this server grants, receives from its primary or loads raises the token clock. An RDB file stores
//! the clock along with the keys. But an append-only file that is rewritten without a preamble contains only keys, so
//! it would lose the tokens of free locks. After such a rewrite the module appends `LOCK._CLOCK`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redis_lock_core::{Monotonic, Token, TokenClock, UnixTime};

use super::effect;
use crate::server::{self, Context, ServerEvent};

/// The last token seen, 0 for none. Written only under the server's lock.
static LAST: AtomicU64 = AtomicU64::new(0);
/// True until the token clock is appended to the append-only file.
static TO_RECORD: AtomicBool = AtomicBool::new(false);

pub(super) fn load(context: Context<'_>) {
    server::subscribe(context, ServerEvent::Forked, |context| {
        if context.flags().append_only() && rewrites_keys_alone(context) {
            TO_RECORD.store(true, Ordering::Relaxed);
            // A module must not write inside the event of the fork.
            server::call_later(context, Duration::ZERO, record);
        }
    });
    server::subscribe(context, ServerEvent::Cron, |context| {
        if TO_RECORD.load(Ordering::Relaxed) {
            server::call_later(context, Duration::ZERO, record);
        }
    });
}

/// Returns true if the child that was just forked rewrites the append-only file without a preamble.
///
/// The clock is not appended for other children, because on Valkey 9.0 and 9.1 a replicated command without keys can
/// break a slot migration.
fn rewrites_keys_alone(context: Context<'_>) -> bool {
    let rewrites = context.info_number(c"persistence", c"aof_rewrite_in_progress");
    let preamble = context.setting(c"aof-use-rdb-preamble");
    rewrites != Some(0) && preamble.as_deref() != Some("yes")
}

/// The highest token that this server has seen.
pub(crate) fn last_token() -> Option<Token> {
    Token::new(LAST.load(Ordering::Relaxed))
}

/// Raises the token clock to a token that this server or another one has granted.
pub(crate) fn observe_token(token: Token) {
    LAST.fetch_max(token.number(), Ordering::Relaxed);
}

/// A copy of the token clock for the core's rules. A grant must then be recorded with [`observe_token`].
pub(crate) fn token_clock() -> TokenClock {
    TokenClock::after(last_token())
}

/// The wall clock.
pub(crate) fn now(context: Context<'_>) -> UnixTime {
    UnixTime::from_micros(context.unix_micros())
}

/// The monotonic clock.
pub(crate) fn monotonic() -> Monotonic {
    Monotonic(server::monotonic_micros())
}

fn record(context: Context<'_>) {
    if !context.writes_paused()
        && TO_RECORD.swap(false, Ordering::Relaxed)
        && let Some(token) = last_token()
    {
        effect::replicate_clock(context, token);
    }
}
