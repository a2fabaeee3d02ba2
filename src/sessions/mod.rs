//! Sessions: a program's presence on this server.
//!
//! [`state`] has the open sessions and the POLLs that wait. Commands report what they change in locks and ask what a
//! call may do ([`calls`]); server events report what is lost ([`losses`]). A timer does everything else ([`work`]): it
//! renews grants, ends silent sessions, releases the grants of closed ones and answers POLLs ([`polls`]).
//!
//! A POLL writes nothing itself. What it causes comes from the timer, in the same iteration of the event loop. A POLL
//! that waits for calls to be granted is answered at the end of the iteration ([`follow`]).

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
    Membership, any_grants, before_command, before_look, check, is_full, leases_ended, membership,
    note_change, of_grant, refusal,
};
pub(crate) use errors::NO_SESSION;
pub(crate) use grant::note_cap;
pub(crate) use losses::{lock_lost, lock_overwritten};
pub(crate) use open::{
    check_known, check_may_block, check_open, close, counts, list, next_grant, open,
    polling_client, polling_client_closes, presence, report,
};
pub(crate) use polls::poll;
pub(crate) use reply::write_reply;
pub(crate) use upper::Upper;
pub(crate) use work::look_at_program;

/// Subscribes to the events by which grants are lost without a command on their key.
pub(crate) fn load(context: Context<'_>, upper: Upper) {
    upper::load(upper);
    timer::load(work::work);
    losses::load(context);
    server::subscribe(context, ServerEvent::Cron, follow::cron);
}
