//! What clients do.

use history::{Action, Down, Limit, Moment, Register, Write, Written};
use rand::RngExt;

use super::defect::Defect;
use super::{Event, Simulation};

impl Simulation {
    /// What a client does next.
    pub(super) fn choose(&mut self, client: u32) -> Action {
        let known = Some(self.tokens[client as usize]).filter(|token| *token > 0);
        let token = known.filter(|_| self.random.random_range(0..3) == 0);
        let longest = self.settings.longest_lease;
        let lease = self.random.random_range(longest / 40..longest);
        let lease = Some(lease).filter(|_| self.random.random_range(0..5) > 0);
        match self.random.random_range(0..100) {
            0..45 => {
                let token = token.filter(|_| self.random.random_range(0..3) == 0);
                let holds = self.random.random_range(1..4);
                Action::Acquire {
                    limit: self.limit(70),
                    // The default lease would outlast the run.
                    lease: lease.or(Some(longest / 2)),
                    block: self.chance(60),
                    holds: Some(holds).filter(|_| self.random.random_range(0..3) == 0),
                    token,
                }
            }
            45..72 => Action::Release {
                down: match self.random.random_range(0..4) {
                    0 | 1 => Down::One,
                    2 => Down::All,
                    _ => Down::To(self.random.random_range(0..3)),
                },
                token,
            },
            72..84 => {
                let raise = token.filter(|_| self.settings.raises);
                let raise = raise.map(|token| token + self.random.random_range(0..5_000));
                let limit = raise.map_or_else(|| self.limit(30), |_| None);
                Action::Renew {
                    limit,
                    lease,
                    token,
                    raise,
                }
            }
            84..90 => match known {
                Some(token) => Action::Fence(token),
                None => Action::Look,
            },
            90..98 => Action::Look,
            _ => Action::Remove,
        }
    }

    /// In so many of a hundred calls, where clients share.
    fn limit(&mut self, percent: u32) -> Option<Limit> {
        let names_one = self.settings.shares && self.chance(percent);
        names_one.then(|| Limit::new([0, 0, 1, 2, 2, 3][self.random.random_range(0..6)]))
    }

    /// A client that has been told of a token writes to what the lock guards.
    pub(super) fn write(&mut self, client: u32) {
        let token = self.tokens[client as usize];
        if token == 0 || !self.chance(40) {
            return;
        }
        let alone = self.alone[client as usize];
        let register = if !alone || self.chance(50) {
            Register::Script
        } else {
            Register::Sql
        };
        self.history.writes.push(Write {
            register,
            key: "lock".to_owned(),
            token,
            sent: self.now,
            ended: Moment::MAX,
            written: Written::Untouched,
        });
        self.within(300, Event::WriteArrives(self.history.writes.len() - 1));
    }

    pub(super) fn write_arrives(&mut self, index: usize) {
        let unknown = self.chance(5);
        let write = &mut self.history.writes[index];
        let taken = match write.register {
            Register::Script => self.server.write(write.token),
            Register::Sql if self.server.defect == Some(Defect::RegisterTakesAll) => true,
            Register::Sql if self.server.defect == Some(Defect::RegisterRefuses) => false,
            Register::Sql => write.token >= self.sql,
        };
        if taken && write.register == Register::Sql {
            self.sql = write.token;
        }
        write.ended = self.now + self.random.random_range(1..300);
        write.written = match taken {
            _ if unknown => Written::Unknown,
            true => Written::Taken,
            false => Written::Refused,
        };
    }
}
