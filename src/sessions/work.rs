//! The work of the timer: ends leases and silent sessions, renews and releases grants, and answers POLLs.

use std::time::Duration;

use redis_lock_core::Set;
use redis_lock_core::sessions::{LossReason, Presence, SessionGrant, SessionId, Timeout};

use super::errors::NOT_PRIMARY;
use super::grant::{Outcome, deadline, renew};
use super::polls;
use super::state::STATE;
use super::timer;
use super::upper::{end_waits, presence_changed, release};
use crate::locks::{Slice, check_write};
use crate::server::cluster_nodes::NodesCache;
use crate::server::{Context, OwnedText, WriteCheck};

/// How often the server is asked for the user and database of a connection.
const IDENTITY_CHECK_PERIOD: Duration = Duration::from_secs(1);
/// How many grants of silent sessions are forgotten at once.
const SWEPT_AT_ONCE: usize = 200;
/// How many grants of a flushed database are reported at once.
pub(super) const FLUSHED_AT_ONCE: usize = 200;

/// Does all work that is due.
pub(super) fn work(context: Context<'_>) {
    let paused = context.writes_paused();
    let stalled = STATE.tick(context, paused);
    refuse_polls(context);
    report_flushed(context);
    end_leases(context);
    if !stalled {
        end_silent(context);
    }
    let mut writes = Writes::begin(context, paused);
    renew_due(context, &mut writes);
    writes.next_slice();
    release_left(context, &mut writes);
    writes.next_slice();
    answer_polls(context, &mut writes);
    STATE.with(context, |state| {
        state.writes_blocked = writes.are_refused();
        state.sessions.sweep(SWEPT_AT_ONCE);
    });
}

/// Whether the server allows writes now, which is checked only when needed, and the time slice for writing.
struct Writes<'call> {
    context: Context<'call>,
    allowed: Option<bool>,
    nodes: NodesCache,
    slice: Slice,
}

impl<'call> Writes<'call> {
    fn begin(context: Context<'call>, paused: bool) -> Self {
        let flags = context.flags();
        Self {
            context,
            allowed: (paused || flags.loading() || flags.replica()).then_some(false),
            nodes: NodesCache::default(),
            slice: Slice::begin(),
        }
    }

    /// Returns true if the server allows writes and the slice is not over. In a cluster the answer depends on the key,
    /// so [`Self::is_allowed`] must be asked too.
    fn are_allowed(&mut self) -> bool {
        let context = self.context;
        *self.allowed.get_or_insert_with(|| {
            let name = OwnedText::new(b"");
            context.flags().cluster() || check_write(context, name.text()) == WriteCheck::Allowed
        }) && !self.slice.is_over()
    }

    /// Gives the next part of the work a time slice of its own.
    fn next_slice(&mut self) {
        self.slice = Slice::begin();
    }

    fn are_refused(&self) -> bool {
        self.allowed == Some(false)
    }

    fn is_allowed(&self, grant: &SessionGrant) -> bool {
        if !self.context.flags().cluster() {
            return true;
        }
        let key = OwnedText::new(&grant.lock_id.key);
        self.context.select_database(grant.lock_id.database)
            && match check_write(self.context, key.text()) {
                WriteCheck::Allowed => true,
                // A node that imports a slot serves the keys that it already has.
                WriteCheck::OtherNode => self.nodes.imports(self.context, key.text()),
                WriteCheck::ClusterDown | WriteCheck::NotNow => false,
            }
    }
}

/// Continues to report the lost grants of flushed databases, for one slice of time.
fn report_flushed(context: Context<'_>) {
    let slice = Slice::begin();
    while STATE.with_time(context, |state, now| {
        state.sessions.report_flushed(FLUSHED_AT_ONCE, now)
    }) && !slice.is_over()
    {}
}

/// Checks the grants whose recorded lease has ended, for one slice of time.
fn end_leases(context: Context<'_>) {
    let slice = Slice::begin();
    while let Some(grant) = STATE.with_time(context, |state, now| state.sessions.next_ended(now)) {
        check_grant(context, &grant, LossReason::Expired);
        if slice.is_over() {
            return;
        }
    }
}

/// Records the deadline of a grant. If the grant no longer exists, reports it as lost for this reason.
pub(super) fn check_grant(context: Context<'_>, grant: &SessionGrant, reason: LossReason) {
    let deadline = deadline(context, grant);
    STATE.with_time(context, |state, now| match deadline {
        Some(deadline) => state.sessions.seen(grant.name(), deadline, now),
        None => state.sessions.lost(grant.name(), reason, now),
    });
}

/// Ends the sessions whose timeout has passed, and passes over the calls of sessions that have not polled recently, for
/// one slice of time.
fn end_silent(context: Context<'_>) {
    let slice = Slice::begin();
    while let Some(timeout) =
        STATE.with_time(context, |state, now| state.sessions.take_timeout(now))
    {
        match timeout {
            Timeout::Away(id) => presence_changed(context, id),
            Timeout::Ended(id) => end_waits(context, id),
        }
        if slice.is_over() {
            return;
        }
    }
}

fn renew_due(context: Context<'_>, writes: &mut Writes<'_>) {
    while STATE.with_time(context, |state, now| {
        let due = state.sessions.next_due_at();
        due.is_some_and(|due| due <= now.monotonic)
    }) && writes.are_allowed()
    {
        let next = STATE.with_time(context, |state, now| state.sessions.next_due(now));
        let Some(grant) = next else { return };
        renew_one(context, &grant, writes);
    }
}

fn renew_one(context: Context<'_>, grant: &SessionGrant, writes: &Writes<'_>) {
    if writes.is_allowed(grant) {
        renew_attached(context, grant);
    } else {
        STATE.with_time(context, |state, now| state.sessions.not_renewed(grant, now));
    }
}

/// Records the outcome of a renewal.
fn record(context: Context<'_>, grant: &SessionGrant, outcome: Outcome) {
    STATE.with_time(context, |state, now| {
        let (sessions, name) = (&mut state.sessions, grant.name());
        match outcome {
            Outcome::Renewed(deadline) => sessions.renewed(grant, deadline, now),
            Outcome::Kept(deadline) => sessions.seen(name, deadline, now),
            Outcome::Lost => sessions.lost(name, LossReason::Deleted, now),
        }
    });
}

/// Renews a grant, unless the polling connection has changed its user or database.
pub(super) fn renew_attached(context: Context<'_>, grant: &SessionGrant) {
    if is_attached(context, grant.session) {
        let outcome = renew(context, grant);
        record(context, grant, outcome);
    }
}

/// Returns true if the polling connection still has the user and database of the session; otherwise detaches the
/// session. Asks the server at most once per [`IDENTITY_CHECK_PERIOD`].
pub(super) fn is_attached(context: Context<'_>, id: SessionId) -> bool {
    let client = STATE.with_time(context, |state, now| {
        let (checked, since) = &mut state.checked;
        if now.monotonic.since(*since) >= IDENTITY_CHECK_PERIOD {
            (*checked, *since) = (Set::default(), now.monotonic);
        }
        // A client that is blocked in a POLL cannot change its user or database.
        let is_known = state.polls.contains_key(&id) || !checked.insert(id);
        state.sessions.client_of(id).filter(|_| !is_known)
    });
    client.is_none_or(|client| keeps_identity(context, id, client))
}

/// Whether the program of a session is present, after a check of its connection.
pub(crate) fn check_program(context: Context<'_>, id: SessionId) -> Presence {
    let (presence, is_blocked) = STATE.with(context, |state| {
        (state.sessions.presence(id), state.polls.contains_key(&id))
    });
    match presence {
        Presence::Here(client) if !is_blocked && !keeps_identity(context, id, client) => {
            Presence::Away
        }
        presence => presence,
    }
}

/// Returns true if the polling connection has the user and database of the session; otherwise detaches the session.
fn keeps_identity(context: Context<'_>, id: SessionId, client: u64) -> bool {
    let identity = context.identity_of(client);
    let (is_attached, goes_away) = STATE.with(context, |state| {
        let is_attached = identity.is_some_and(|(user, database)| {
            state.sessions.knows(id, user.text().bytes(), database)
        });
        let goes_away = !is_attached && state.sessions.detach(id);
        (is_attached, goes_away)
    });
    if goes_away {
        presence_changed(context, id);
    }
    is_attached
}

/// Releases the grants that closed sessions left.
fn release_left(context: Context<'_>, writes: &mut Writes<'_>) {
    while STATE.with(context, |state| state.sessions.has_to_release()) && writes.are_allowed() {
        let taken = STATE.with(context, |state| state.sessions.take_to_release());
        let Some(grant) = taken else { return };
        release(context, &grant);
    }
}

/// Answers the POLLs whose wait is over, up to the first whose session has due grants. The timer renews those first and
/// answers the rest.
pub(super) fn answer_quiet_polls(context: Context<'_>) {
    while let Some(id) = STATE.with_time(context, |state, now| {
        let id = state.sessions.next_poll(now)?;
        let is_quiet = state.sessions.next_due_of(id, now).is_none();
        is_quiet.then_some(id)
    }) {
        polls::answer(context, id);
    }
    timer::arm_for_polls(context);
}

/// Answers the POLLs whose wait is over, after renewing the due grants of their sessions.
fn answer_polls(context: Context<'_>, writes: &mut Writes<'_>) {
    while let Some(id) = STATE.with_time(context, |state, now| state.sessions.next_poll(now)) {
        while let Some(grant) =
            STATE.with_time(context, |state, now| state.sessions.next_due_of(id, now))
        {
            if writes.are_allowed() {
                renew_one(context, &grant, writes);
            } else if writes.are_refused() {
                break;
            } else {
                STATE.with_time(context, |state, now| state.sessions.answer_later(id, now));
                return;
            }
        }
        polls::answer(context, id);
    }
}

/// Answers the POLLs that still wait after the server has become a replica. Most servers unblock them themselves.
fn refuse_polls(context: Context<'_>) {
    while let Some(id) = STATE.with(context, |state| state.to_refuse.pop()) {
        polls::refuse(context, id, NOT_PRIMARY);
    }
}
