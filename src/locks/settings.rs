//! The `lock.*` settings.

use std::sync::atomic::{AtomicUsize, Ordering};

use redis_lock_core::{Lease, Rules};

use crate::server::{self, Context, NumericSetting, ServerEvent, SwitchSetting};

const TEN_YEARS_MS: i64 = Lease::MAX.millis().cast_signed();
const ONE_DAY_MS: i64 = 24 * 60 * 60 * 1000;

static DEFAULT_LEASE_MS: NumericSetting =
    NumericSetting::new(c"default-lease-ms", 30_000, 1, TEN_YEARS_MS);
static MAX_LEASE_MS: NumericSetting =
    NumericSetting::new(c"max-lease-ms", TEN_YEARS_MS, 1, TEN_YEARS_MS);
static MAX_TOKEN_LEAD_MS: NumericSetting =
    NumericSetting::new(c"max-token-lead-ms", 5_000, 0, ONE_DAY_MS);
static MAX_WAITERS: NumericSetting = NumericSetting::new(c"max-waiters", 10_000, 0, 1_000_000);
static MAX_WAITERS_TOTAL: NumericSetting =
    NumericSetting::new(c"max-waiters-total", 10_000, 0, 1_000_000);
static MAX_QUEUED: NumericSetting = NumericSetting::new(c"max-queued", 1_000_000, 0, 100_000_000);
static MAX_HOLDERS: NumericSetting = NumericSetting::new(c"max-holders", 10_000, 1, 1_000_000);
static MAX_SESSIONS: NumericSetting = NumericSetting::new(c"max-sessions", 10_000, 0, 1_000_000);
static DEADLOCK_DETECTION: SwitchSetting = SwitchSetting::new(c"deadlock-detection", true);

/// The server's `maxclients`, as last read.
static MAX_CLIENTS: AtomicUsize = AtomicUsize::new(usize::MAX);

pub(super) fn load(context: Context<'_>) -> Result<(), &'static str> {
    look_up_max_clients(context);
    server::subscribe(context, ServerEvent::Configured, look_up_max_clients);
    let settings = [
        &DEFAULT_LEASE_MS,
        &MAX_LEASE_MS,
        &MAX_TOKEN_LEAD_MS,
        &MAX_WAITERS,
        &MAX_WAITERS_TOTAL,
        &MAX_QUEUED,
        &MAX_HOLDERS,
        &MAX_SESSIONS,
    ];
    let registered = settings
        .into_iter()
        .all(|setting| server::register_setting(context, setting))
        && server::register_switch(context, &DEADLOCK_DETECTION);
    if registered && server::load_settings(context) {
        Ok(())
    } else {
        Err("the server refused a lock.* setting")
    }
}

/// The settings that the rules use.
pub(crate) fn rules() -> Rules {
    Rules {
        default_lease: lease(&DEFAULT_LEASE_MS).min(max_lease()),
        max_token_lead_ms: MAX_TOKEN_LEAD_MS.get().unsigned_abs(),
        max_holders: max_holders(),
    }
}

/// The longest lease that a call may ask for.
pub(crate) fn max_lease() -> Lease {
    lease(&MAX_LEASE_MS)
}

/// How many calls may wait for one lock.
pub(crate) fn max_waiters() -> usize {
    usize::try_from(MAX_WAITERS.get()).unwrap_or(0)
}

/// How many calls may be blocked on this server. Whatever the setting, they leave a quarter of the server's connections
/// to other clients.
pub(crate) fn max_waiters_total() -> usize {
    let connections = MAX_CLIENTS.load(Ordering::Relaxed);
    let setting = usize::try_from(MAX_WAITERS_TOTAL.get()).unwrap_or(0);
    setting.min(connections - connections.div_ceil(4))
}

/// How many queued calls may wait on this server.
pub(crate) fn max_queued() -> usize {
    usize::try_from(MAX_QUEUED.get()).unwrap_or(0)
}

/// Reads the server's `maxclients` again.
fn look_up_max_clients(context: Context<'_>) {
    let most = context.info_number(c"clients", c"maxclients");
    let most = most.and_then(|most| usize::try_from(most).ok());
    MAX_CLIENTS.store(most.unwrap_or(usize::MAX), Ordering::Relaxed);
}

/// How many holders a lock may have.
pub(crate) fn max_holders() -> usize {
    usize::try_from(MAX_HOLDERS.get()).unwrap_or(1)
}

/// How many sessions may be open.
pub(crate) fn max_sessions() -> usize {
    usize::try_from(MAX_SESSIONS.get()).unwrap_or(0)
}

/// Returns true if a call that would create a deadlock cycle fails.
pub(crate) fn detects_deadlocks() -> bool {
    DEADLOCK_DETECTION.is_on()
}

fn lease(setting: &NumericSetting) -> Lease {
    // Never the default, because the setting has the bounds of a lease.
    Lease::from_millis(setting.get().unsigned_abs()).unwrap_or(Lease::MAX)
}
