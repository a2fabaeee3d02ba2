//! Sessions: a program's presence on this server.
//!
//! [`state`] contains the open sessions and the waiting POLLs. Commands report their changes of grants and check what a
//! session allows ([`calls`]). Server events report losses ([`losses`]). A timer does everything else ([`work`]): it
//! renews grants, ends silent sessions, releases the grants of closed sessions and answers POLLs ([`polls`]).
//!
//! A POLL writes no keys itself. The timer makes the renewals that a POLL causes, in the same iteration of the event
//! loop. When an event arrives for a waiting POLL, the POLL is answered at the end of the iteration ([`follow`]).

mod answer;
mod calls;
mod errors;
mod follow;
mod grant;
mod losses;
mod open;
mod polls;
mod reply;
mod state;
mod timer;
mod upper;
mod work;

use crate::server::{self, Context, ServerEvent};

pub(crate) use calls::{
    Membership, any_grants, before_command, before_read, check, is_full, leases_ended, membership,
    of_grant, refusal, track_change,
};
pub(crate) use errors::NO_SESSION;
pub(crate) use grant::track_cap;
pub(crate) use losses::{lock_lost, lock_overwritten};
pub(crate) use open::{
    check_known, check_may_block, check_open, close, counts, list, next_grant, open,
    polling_client, polling_client_closes, presence, report,
};
pub(crate) use polls::poll;
pub(crate) use reply::write_reply;
pub(crate) use upper::Upper;
pub(crate) use work::check_program;

/// Subscribes to the events that sessions follow, and sets up the timer.
pub(crate) fn load(context: Context<'_>, upper: Upper) {
    upper::load(upper);
    timer::load(work::work);
    losses::load(context);
    server::subscribe(context, ServerEvent::Cron, follow::cron);
}
