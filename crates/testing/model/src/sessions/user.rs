//! A task of a program: it takes the lock, works, and gives it back, again and again.

use super::program::{Claim, Outbox, Program, Stage};
use super::{FIXED_LEASE, LEASE, REPLY, Random, Release, Rule};

#[derive(Default)]
pub(super) struct Task {
    /// It has one owner for all that it asks, as long as that can be used.
    pub(super) keeps_owner: bool,
    owner: Option<u64>,
    doing: Doing,
}

#[derive(Clone, Copy, Default)]
enum Doing {
    #[default]
    Idle,
    Asking(u64),
    /// Until then.
    Holding(u64, u64),
    Releasing(Releasing),
}

/// A release, and until when it is repeated.
#[derive(Clone, Copy)]
struct Releasing {
    release: Release,
    until: u64,
    is_unanswered: bool,
}

impl Task {
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.doing, Doing::Idle)
    }

    /// Does what is next; nothing new where `is_over`. Returns how many grants it was given.
    pub(super) fn go_on(
        &mut self,
        (program, outbox): (&mut Program, &mut Outbox),
        is_over: bool,
        random: &mut Random,
        last_owner: &mut u64,
    ) -> usize {
        let now = outbox.now;
        let reuses = program.left_out.contains(&Rule::OwnerNotReused);
        let keeps = program.left_out.contains(&Rule::FreshOwner);
        match self.doing {
            Doing::Idle => {
                if is_over || !random.one_in(20) {
                    return 0;
                }
                let usable = self.owner.filter(|it| reuses || !program.uses(*it));
                let owner = usable.unwrap_or_else(|| {
                    *last_owner += 1;
                    *last_owner
                });
                self.owner = self.keeps_owner.then_some(owner);
                let wait = match random.below(6) {
                    0 => Some(0),
                    1..=3 => Some(500 + random.below(8000)),
                    _ => None,
                };
                let is_fixed = random.one_in(4);
                let lease = if is_fixed { FIXED_LEASE } else { LEASE };
                let claim = Claim::new(now, wait, lease);
                program.claims.insert(owner, claim);
                self.doing = Doing::Asking(owner);
            }
            Doing::Asking(owner) => {
                let claim = program.claims.get_mut(&owner).expect("a claim");
                if claim.is_unanswered && !keeps {
                    self.owner = None;
                }
                match claim.stage {
                    Stage::Held if claim.is_ready(now) => {
                        claim.is_handed_over = true;
                        let work = if random.one_in(4) { 12_000 } else { 1500 };
                        self.doing = Doing::Holding(owner, now + random.below(work));
                        return 1;
                    }
                    Stage::Lost | Stage::Over => {
                        if claim.stage == Stage::Lost && !keeps {
                            self.owner = None;
                        }
                        program.claims.remove(&owner);
                        self.doing = Doing::Idle;
                    }
                    // Above all while its grant is not ready.
                    stage
                        if now >= claim.last()
                            || random.one_in(if stage == Stage::Held { 60 } else { 600 }) =>
                    {
                        let is_known = program.give_up(outbox, owner);
                        if is_known && !keeps {
                            self.owner = None;
                        }
                        self.doing = Doing::Idle;
                    }
                    _ => program.ask(outbox, owner),
                }
            }
            Doing::Holding(owner, until) => {
                let claim = &program.claims[&owner];
                if claim.stage == Stage::Lost {
                    program.claims.remove(&owner);
                    if !keeps {
                        self.owner = None;
                    }
                    self.doing = Doing::Idle;
                } else if now >= until || is_over || claim.has_ended(now) {
                    let (token, session) = (claim.token, claim.session);
                    program.claims.remove(&owner);
                    let release = (owner, Some(token), session);
                    program.release(outbox, release, !reuses);
                    if reuses {
                        self.doing = Doing::Idle;
                        return 0;
                    }
                    self.doing = Doing::Releasing(Releasing {
                        release,
                        until: now + 2 * REPLY,
                        is_unanswered: false,
                    });
                }
            }
            Doing::Releasing(it) => self.releasing(program, outbox, it, keeps),
        }
        0
    }

    fn releasing(
        &mut self,
        program: &mut Program,
        outbox: &mut Outbox,
        it: Releasing,
        keeps: bool,
    ) {
        let Some(is_answered) = program.release_answers.remove(&it.release.0) else {
            return;
        };
        if (it.is_unanswered || !is_answered) && !keeps {
            self.owner = None;
        }
        if !is_answered && outbox.now < it.until {
            program.release(outbox, it.release, true);
            self.doing = Doing::Releasing(Releasing {
                is_unanswered: true,
                ..it
            });
            return;
        }
        if !is_answered {
            program.unfinished.insert(it.release);
        }
        self.doing = Doing::Idle;
    }
}
