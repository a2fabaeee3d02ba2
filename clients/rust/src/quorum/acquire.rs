//! Asks all servers, and waits in line at the first one that answers.

use super::Shared;
use super::ballot::{Ballot, PATIENCE};
use super::guard::{QuorumGuard, Together};
use crate::error::Error;
use crate::lock::Lock;
use crate::pauses::{Pauses, random};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Acquires the lock of a majority, until it is given up. `lock` says how.
pub(super) async fn take(
    quorum: Arc<Shared>,
    lock: Lock,
    given_up: CancellationToken,
) -> Result<QuorumGuard, Error> {
    let mut ballot = Ballot::new(quorum, lock, given_up.clone());
    let taken = acquire(&mut ballot, &given_up).await;
    ballot.finish(taken.as_ref().ok().cloned());
    taken.map(|lock| QuorumGuard { lock })
}

/// Asks all servers at once. A caller that gets no majority gives back what it has, and waits in line at the first server
/// that answers. Only the first in that line keeps what it has while it waits for the other servers, so no two callers
/// wait for each other. Where callers disagree about the first server, the end of their turns parts them.
async fn acquire(
    ballot: &mut Ballot,
    given_up: &CancellationToken,
) -> Result<Arc<Together>, Error> {
    let (begun, wait) = (Instant::now(), ballot.lock.terms.wait);
    let wait = wait.unwrap_or(Duration::MAX);
    let left = || wait.saturating_sub(begun.elapsed());
    let (mut pauses, mut is_stuck) = (Pauses::default(), wait.is_zero());
    loop {
        ballot.ask_rest(Duration::ZERO).await;
        let first = ballot.first();
        let is_turn = first.is_some_and(|first| ballot.has_grant(first));
        if is_turn && !left().is_zero() && !ballot.has_majority() {
            ballot.leave_lines(); // where it would wait behind itself
            ballot.ask_rest(turn_time(left())).await;
        }
        // Callers in line at the first server come before, unless the line there does not move.
        if (is_turn || is_stuck)
            && let Some(token) = ballot.raise().await
        {
            return Ok(ballot.hand_over(token));
        }
        let failure = ballot.failure(left().is_zero());
        ballot.give_back().await;
        if let Some(failure) = failure {
            return Err(failure);
        }
        // Too few servers answer, or the turn is over; or there is a line to wait in.
        let line = first.filter(|_| !is_turn);
        let rest = if let Some(line) = line {
            pauses = Pauses::default();
            ballot.wait_in_line(line, left());
            turn_time(left())
        } else {
            pauses.next().min(left())
        };
        let over = Instant::now() + rest;
        let has_turn = |ballot: &Ballot| line.is_some_and(|line| ballot.has_grant(line));
        while !has_turn(ballot) && ballot.next(Some(over)).await {}
        is_stuck = line.is_some() && !has_turn(ballot);
        if given_up.is_cancelled() || left().is_zero() {
            return Err(ballot.failure(true).expect("it is over"));
        }
    }
}

/// How long the first in line waits for the other servers before it joins the end of the line. It is also how long the
/// others wait before they see whether a majority is free all the same.
fn turn_time(left: Duration) -> Duration {
    let turn = Duration::from_secs(1) + random(Duration::from_secs(1));
    turn.min(PATIENCE.max(left / 2)).min(left)
}
