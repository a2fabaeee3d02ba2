//! The work of the timer: leases that end, sessions that are silent, renewals, releases, POLLs to answer.

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

/// How often the server is asked which user and database a connection has.
const LOOKS: Duration = Duration::from_secs(1);
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
        state.held_up = writes.are_refused();
        state.sessions.sweep(SWEPT_AT_ONCE);
    });
}

/// Whether the server allows writes now, asked only when needed, and the time slice for writing.
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

    /// True when the server would allow writes, and the slice is not over. On a node of a cluster this depends on the
    /// key.
    fn are_allowed(&mut self) -> bool {
        let context = self.context;
        *self.allowed.get_or_insert_with(|| {
            let name = OwnedText::new(b"");
            context.flags().cluster() || check_write(context, name.text()) == WriteCheck::Allowed
        }) && !self.slice.is_over()
    }

    /// The next part of the work begins.
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
                // Its keys that are here already are served here.
                WriteCheck::OtherNode => self.nodes.imports(self.context, key.text()),
                WriteCheck::ClusterDown | WriteCheck::NotNow => false,
            }
    }
}

/// Reports the grants of flushed databases.
fn report_flushed(context: Context<'_>) {
    let slice = Slice::begin();
    while STATE.with_time(context, |state, now| {
        state.sessions.report_flushed(FLUSHED_AT_ONCE, now)
    }) && !slice.is_over()
    {}
}

/// Looks at the grants whose lease has ended, as far as is known and the time allows.
fn end_leases(context: Context<'_>) {
    let slice = Slice::begin();
    while let Some(grant) = STATE.with_time(context, |state, now| state.sessions.next_ended(now)) {
        look(context, &grant, LossReason::Expired);
        if slice.is_over() {
            return;
        }
    }
}

/// Checks whether a grant still exists, and until when. Otherwise it is lost for this reason.
pub(super) fn look(context: Context<'_>, grant: &SessionGrant, reason: LossReason) {
    let stands = deadline(context, grant);
    STATE.with_time(context, |state, now| match stands {
        Some(deadline) => state.sessions.seen(grant.name(), deadline, now),
        None => state.sessions.lost(grant.name(), reason, now),
    });
}

/// Ends the sessions that have been silent for too long, and passes over the calls of those that do not poll, as far as
/// the time allows.
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
fn note(context: Context<'_>, grant: &SessionGrant, outcome: Outcome) {
    STATE.with_time(context, |state, now| {
        let (sessions, name) = (&mut state.sessions, grant.name());
        match outcome {
            Outcome::Renewed(deadline) => sessions.renewed(grant, deadline, now),
            Outcome::Kept(deadline) => sessions.seen(name, deadline, now),
            Outcome::Lost => sessions.lost(name, LossReason::Deleted, now),
        }
    });
}

/// Renews a grant, unless the connection that polls its session has another user or database now.
pub(super) fn renew_attached(context: Context<'_>, grant: &SessionGrant) {
    if is_attached(context, grant.session) {
        let outcome = renew(context, grant);
        note(context, grant, outcome);
    }
}

/// Checks, at most once in [`LOOKS`], whether the connection that polls a session still has its user and its database.
/// Otherwise the session is detached.
pub(super) fn is_attached(context: Context<'_>, id: SessionId) -> bool {
    let client = STATE.with_time(context, |state, now| {
        let (looked_at, since) = &mut state.looked_at;
        if now.monotonic.since(*since) >= LOOKS {
            (*looked_at, *since) = (Set::default(), now.monotonic);
        }
        // A client that is blocked changes nothing.
        let is_known = state.polls.contains_key(&id) || !looked_at.insert(id);
        state.sessions.client_of(id).filter(|_| !is_known)
    });
    client.is_none_or(|client| keeps_identity(context, id, client))
}

/// Whether the program of a session may get a lock now.
pub(crate) fn look_at_program(context: Context<'_>, id: SessionId) -> Presence {
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

/// True when the connection that polls a session has its user and its database. Otherwise the session is detached.
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

/// Releases the grants that closed sessions have left.
fn release_left(context: Context<'_>, writes: &mut Writes<'_>) {
    while STATE.with(context, |state| state.sessions.has_to_release()) && writes.are_allowed() {
        let taken = STATE.with(context, |state| state.sessions.take_to_release());
        let Some(grant) = taken else { return };
        release(context, &grant);
    }
}

/// Answers the POLLs whose wait is over, but leaves those whose session has due grants to the timer.
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

/// Answers the POLLs that still wait after the server has stopped being primary. Most servers answer them themselves.
fn refuse_polls(context: Context<'_>) {
    while let Some(id) = STATE.with(context, |state| state.to_refuse.pop()) {
        polls::refuse(context, id, NOT_PRIMARY);
    }
}
