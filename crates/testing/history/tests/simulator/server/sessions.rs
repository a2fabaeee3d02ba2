//! Sessions, of which nothing is renewed here.

use history::Moment;
use redis_lock_core::sessions::SessionId;
use redis_lock_core::{Deadline, Token};

use super::super::defect::Defect;
use super::{Server, owner};

/// A grant in a session.
#[derive(Clone, Debug)]
pub(super) struct Member {
    session: u64,
    owner: String,
    token: Token,
}

impl Server {
    /// The calls of a session are passed over from now on, or no longer.
    pub(crate) fn pass_over(&mut self, session: u64, is_passed_over: bool) {
        let session = SessionId::new(session).expect("a session");
        if is_passed_over {
            self.away.insert(session);
        } else {
            self.away.remove(&session);
        }
        self.waits
            .pass_over(session, is_passed_over, None, usize::MAX);
        self.settle();
        self.serve();
    }

    /// The grant of this owner is in a session from now on.
    pub(super) fn join_session(&mut self, name: &str, session: u64) {
        let holder = self.holders().and_then(|holders| holders.find(owner(name)));
        if let Some(token) = holder.map(|holder| holder.grant.token) {
            self.members.retain(|member| member.token != token);
            self.members.push(Member {
                session,
                owner: name.to_owned(),
                token,
            });
        }
    }

    /// `sure-ms` for a POLL that has waited since then, and the grants that are lost.
    pub(crate) fn sure(&mut self, session: u64, since: Moment) -> (i64, Vec<(String, u64)>) {
        let (wall, waited) = (self.wall().micros(), self.now - since);
        let (mut sure, mut gone) = (-1, Vec::new());
        for member in std::mem::take(&mut self.members) {
            let holder = self.holders();
            let holder = holder.and_then(|holders| holders.find(owner(&member.owner)));
            let holder = holder.filter(|holder| holder.grant.token == member.token);
            match holder.map(|holder| holder.end) {
                _ if member.session != session => self.members.push(member),
                Some(Deadline::At(end)) => {
                    let left = (end * 1000).saturating_sub(wall);
                    let is_wrong = self.defect == Some(Defect::SureTooLong);
                    let more = if is_wrong { 500_000 } else { 0 };
                    let until = i64::try_from((waited + left + more) / 1000).expect("a short time");
                    sure = if sure < 0 { until } else { sure.min(until) };
                    self.members.push(member);
                }
                Some(Deadline::Never) => self.members.push(member),
                None => gone.push(("lock".to_owned(), member.token.number())),
            }
        }
        (sure, gone)
    }
}
