//! The calls and events, in the registry and in the model.

use std::time::Duration;

use super::model::{Kind, Name};
use super::strategies::Op;
use super::world::{Hold, World, database, deadline, id, lease, owner, token, with};
use crate::sessions::{
    Block, EventKind, LossReason, Opening, PollRefusal, Presence, SessionTimeout,
};

fn pick<T: Copy>(from: &[T], number: usize) -> Option<T> {
    from.get(number % from.len().max(1)).copied()
}

impl World {
    pub(super) fn run(&mut self, op: Op) {
        let _ = self.try_op(op);
        self.check();
    }

    /// None where there is nothing to do it with.
    #[expect(clippy::too_many_lines, reason = "one line or two for each operation")]
    fn try_op(&mut self, op: Op) -> Option<()> {
        let now = self.now();
        match op {
            Op::Connect => {
                self.last_client += 1;
                self.connections.push(self.last_client);
            }
            Op::Disconnect(connection, is_read) => {
                let client = pick(&self.connections, connection)?;
                let mut away = if is_read {
                    self.connections.retain(|of| *of != client);
                    self.sessions.disconnected(client, now)
                } else {
                    self.sessions.closing(client)
                };
                let mut model = self.model.leave(client, is_read);
                model.sort_unstable();
                away.sort_unstable();
                assert_eq!(away, model.into_iter().map(id).collect::<Vec<_>>());
            }
            Op::Detach(session) => {
                let number = pick(&self.ids, session)?;
                let was_away = self.model.detach(number);
                assert_eq!(self.sessions.detach(id(number)), was_away == Some(false));
            }
            Op::Open(connection, timeout_ms) => {
                let client = pick(&self.connections, connection)?;
                if self.is_blocked(client) {
                    return None;
                }
                let number = self.ids.len() as u64 + 1;
                self.open(number, client, timeout_ms);
            }
            Op::OpenAgain(session) => {
                let number = pick(&self.ids, session)?;
                self.model.live(number)?;
                assert!(
                    !self
                        .sessions
                        .open(id(number), opening(number, 1, 1000), now)
                );
            }
            Op::Poll {
                session,
                connection,
                block,
                multi,
                stranger,
            } => {
                let (number, client) = (
                    pick(&self.ids, session)?,
                    pick(&self.connections, connection)?,
                );
                if self.is_blocked(client) {
                    return None;
                }
                self.poll(number, client, block, multi, stranger);
            }
            Op::Unblock(session) => {
                let number = pick(&self.ids, session)?;
                let arrived = self.model.live(number)?.poll?.arrived;
                let reply = self.sessions.answer_empty(id(number), now);
                let model = self.model.reply(number, 0);
                self.check_reply(number, arrived, reply, model.as_ref());
            }
            Op::Acquire {
                session,
                lock,
                lease,
            } => {
                let number = pick(&self.ids, session)?;
                let lock = lock - lock % 2 + u8::try_from(number % 2).unwrap();
                self.last_token += 1;
                self.join(number, (lock, self.last_token), lease);
            }
            Op::Move {
                session,
                hold,
                lease,
            } => {
                let (number, hold) = (pick(&self.ids, session)?, pick(&self.holds, hold)?);
                self.hold(hold.name)?;
                if database(hold.name.0) != database(u8::try_from(number % 2).unwrap()) {
                    return None;
                }
                self.release_closed(hold.name.0);
                self.hold(hold.name)?;
                self.join(number, hold.name, lease);
            }
            Op::Change { hold, lease: ms } => {
                let name = pick(&self.holds, hold)?.name;
                let end = Some(self.model.wall() + ms);
                let hold = self.hold(name)?;
                (hold.lease, hold.end) = (ms, end);
                self.excuse(name);
                with(name, |name| {
                    self.sessions.changed(name, lease(ms), deadline(end), now);
                });
                self.model.changed(name, ms, end);
            }
            Op::TakeOut(hold) => {
                let name = pick(&self.holds, hold)?.name;
                self.hold(name)?;
                with(name, |name| self.sessions.take_out(name));
                self.model.take_out(name);
            }
            Op::Raise(hold) => {
                let name = pick(&self.holds, hold)?.name;
                self.last_token += 1;
                let to = self.last_token;
                self.release_closed(name.0);
                self.hold(name)?.name.1 = to;
                self.excuse(name);
                with(name, |name| self.sessions.raised(name, token(to)));
                if let Some(grant) = self.model.find(name) {
                    grant.name.1 = to;
                    let parked = self.parked.iter_mut().filter(|(parked, _)| *parked == name);
                    parked.for_each(|(parked, _)| parked.1 = to);
                }
            }
            Op::Release { hold, by } => {
                let name = pick(&self.holds, hold)?.name;
                self.hold(name)?;
                self.end_hold(name);
                let by = pick(&self.ids, by).filter(|_| by % 3 > 0);
                with(name, |name| self.sessions.released(name, by.map(id), now));
                let of = self.model.find(name).map(|grant| grant.session);
                if by.is_some() && by == of {
                    self.model.grants.retain(|grant| grant.name != name);
                } else {
                    let is_live = of.is_some();
                    self.model
                        .lose(LossReason::Released, |grant| is_live && grant.name == name);
                }
            }
            Op::GiveBack(hold) => {
                let name = pick(&self.holds, hold)?.name;
                self.end_hold(name);
                with(name, |name| self.sessions.given_back(name));
                self.model.grants.retain(|grant| grant.name != name);
            }
            Op::Delete(lock) => {
                self.holds.retain(|hold| hold.name.0 != lock);
                let reason = LossReason::Deleted;
                self.sessions
                    .lost_lock(database(lock), &[lock], reason, now);
                self.model.lose(reason, |grant| grant.name.0 == lock);
            }
            Op::Flush(which) if which > 2 => return None,
            Op::Flush(which) => {
                let is_lost = |name: Name| which == 2 || name.0 % 2 == which;
                self.holds.retain(|hold| !is_lost(hold.name));
                let reason = LossReason::Flushed;
                let database = (which < 2).then(|| database(which));
                self.sessions.flushed(database, reason);
                while self.sessions.report_flushed(2, now) {}
                self.model.lose(reason, |grant| is_lost(grant.name));
            }
            Op::Cut { hold, ms, is_told } => {
                let name = pick(&self.holds, hold)?.name;
                let end = self.model.wall() + ms;
                let of_lock = |of: &Name| of.0 == name.0 && (is_told || *of == name);
                let names: Vec<_> = self
                    .holds
                    .iter()
                    .map(|hold| hold.name)
                    .filter(of_lock)
                    .collect();
                for name in names {
                    self.excuse(name);
                    if let Some(hold) = self.hold(name)
                        && hold.end.is_none_or(|before| end < before || !is_told)
                    {
                        hold.end = Some(end);
                    }
                }
                if is_told {
                    self.sessions.cap_ends(database(name.0), &[name.0], end);
                    let model = self
                        .model
                        .grants
                        .iter_mut()
                        .filter(|grant| grant.name.0 == name.0);
                    model.for_each(|grant| {
                        grant.end = Some(grant.end.map_or(end, |before| before.min(end)));
                    });
                }
            }
            Op::Persist(hold) => {
                let name = pick(&self.holds, hold)?.name;
                self.hold(name)?.end = None;
            }
            Op::Report(session) => {
                let number = pick(&self.ids, session)?;
                let kind = EventKind::Ended("timeout".into());
                self.sessions
                    .report(id(number), &[9].into(), &owner(9), kind);
                self.model.report(number, 9, Kind::Ended);
            }
            Op::Close(session) => self.close(pick(&self.ids, session)?),
            Op::EndAll => {
                self.sessions.end_all();
                let all: Vec<_> = self.ids.clone();
                for number in all {
                    self.model.end(number);
                }
                self.model.to_release.clear();
                assert!(self.sessions.is_idle());
            }
            Op::Command(lock) => self.command(lock),
            Op::Block(blocked) => self.writes_blocked = blocked,
            Op::Iterate { slice, forget } => self.iterate(slice, forget),
            Op::Pass(micros) => self.pass(micros),
            Op::Stall(micros) => self.stall(micros),
            Op::Step(ms) => self.set_wall(self.model.wall_micros + ms * 1000 - 10_000_000),
        }
        Some(())
    }

    pub(super) fn open(&mut self, number: u64, client: u64, timeout_ms: u64) {
        let now = self.now();
        assert!(
            self.sessions
                .open(id(number), opening(number, client, timeout_ms), now)
        );
        self.ids.push(number);
        self.model.sessions.push(super::model::Session {
            id: number,
            database: database(u8::try_from(number % 2).unwrap()),
            timeout_ms,
            opened: self.model.now,
            has_ended: false,
            clients: vec![client],
            is_attached: true,
            is_away: false,
            poll: None,
            heard: self.model.now,
            replied: self.model.now,
            events: Vec::new(),
            answered: Vec::new(),
            acknowledged: 0,
        });
    }

    fn poll(&mut self, number: u64, client: u64, block: u64, multi: bool, stranger: bool) {
        let now = self.now();
        let (mut user, mut db) = (
            b"user".as_slice(),
            database(u8::try_from(number % 2).unwrap()),
        );
        if stranger && client.is_multiple_of(2) {
            user = b"other";
        } else if stranger {
            db += 1;
        }
        let how = match block {
            0 => Block::No,
            block if block > u64::MAX / 8 => Block::Forever,
            micros => Block::For(Duration::from_micros(micros)),
        };
        let may_poll = self.sessions.may_poll(id(number), user, db, client);
        let was_away = self.sessions.presence(id(number)) == Presence::Away;
        let polled = self.sessions.poll(id(number), user, db, client, how, now);
        let model_database = if stranger { -1 } else { db };
        let block = if how == Block::Forever {
            u64::MAX
        } else {
            block
        };
        let model = self.model.poll(number, model_database, client, block);
        assert_eq!(may_poll, polled.map(|_| ()));
        let waits = match polled {
            Ok(polled) => {
                assert_eq!(model, Ok(polled.displaced));
                assert_eq!(polled.was_away, was_away);
                polled.waits
            }
            Err(refusal) => {
                assert_eq!(model, Err(refusal == PollRefusal::NoSession));
                return;
            }
        };
        let names = self
            .model
            .grants_of(number)
            .iter()
            .map(|grant| grant.name)
            .collect();
        self.known.push((number, names));
        let arrived = self.model.now;
        if multi {
            let reply = self.sessions.answer_now(id(number), now);
            let model = self.model.reply(number, 1000);
            self.check_reply(number, arrived, reply, model.as_ref());
        } else if self.sessions.next_due_of(id(number), now).is_none() {
            assert_eq!(self.answer(number), waits);
        } else {
            assert!(!waits, "what is due is renewed first");
        }
    }

    /// Judges a POLL; true when it waits.
    pub(super) fn answer(&mut self, number: u64) -> bool {
        let arrived = self.model.live(number).unwrap().poll.unwrap().arrived;
        let reply = self.sessions.answer(id(number), self.now());
        let (model, waits) = (self.model.answer(number), reply.is_none());
        self.check_reply(number, arrived, reply, model.as_ref());
        waits
    }

    fn join(&mut self, number: u64, name: Name, ms: u64) {
        if self.model.live(number).is_none() {
            assert!(!self.sessions.is_open(id(number)));
            return;
        }
        let end = Some(self.model.wall() + ms);
        self.excuse(name);
        self.holds.retain(|hold| hold.name != name);
        self.holds.push(Hold {
            name,
            lease: ms,
            end,
        });
        let now = self.now();
        let of = owner(name.0.into());
        with(name, |name| {
            self.sessions
                .join(id(number), name, &of, lease(ms), deadline(end), now);
        });
        self.model.join(number, name, ms, end);
    }

    fn close(&mut self, number: u64) {
        let client = self
            .model
            .live(number)
            .and_then(|session| session.poll.map(|_| session.client()));
        let was_open = self.model.live(number).is_some();
        let grants = self.model.end(number);
        let closed = self.sessions.close(id(number));
        assert_eq!(
            closed.map(|closed| (closed.grants, closed.waiting)),
            was_open.then_some((grants.len(), client))
        );
        self.model.to_release.extend(grants);
        assert!(!self.sessions.is_open(id(number)));
    }
}

fn opening(number: u64, client_id: u64, timeout_ms: u64) -> Opening<'static> {
    Opening {
        user: b"user",
        database: database(u8::try_from(number % 2).unwrap()),
        client_id,
        name: b"name",
        timeout: SessionTimeout::from_millis(timeout_ms).unwrap(),
    }
}
