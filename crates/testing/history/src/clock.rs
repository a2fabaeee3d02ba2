//! The server's wall clock, as far as it is known.

use crate::{ClockStep, Moment, Span};

/// Microseconds by the server's wall clock. Its zero is the zero of [`Moment`], as long as nobody
/// has set the clock.
pub(crate) type ServerTime = i64;

/// A lease's end is kept in whole milliseconds, and the server looks at its clock once for a
/// command: a lease may seem this much shorter than it is.
const ROUNDING: ServerTime = 2_000;

/// Bounds of the wall clock.
pub(crate) struct ServerClock {
    /// Which lead the clock may have when. Neighbours overlap while a step is made.
    leads: Vec<Lead>,
}

struct Lead {
    from: Moment,
    to: Moment,
    ahead: i64,
}

impl ServerClock {
    /// A clock that makes these steps.
    pub(crate) fn new(steps: &[ClockStep]) -> Self {
        let mut leads = vec![Lead {
            from: 0,
            to: Moment::MAX,
            ahead: 0,
        }];
        for step in steps {
            if let Some(before) = leads.last_mut() {
                before.to = step.at.to;
            }
            leads.push(Lead {
                from: step.at.from,
                to: Moment::MAX,
                ahead: step.ahead,
            });
        }
        Self { leads }
    }

    /// The lowest time that the clock can have shown between two moments.
    pub(crate) fn earliest(&self, from: Moment, to: Moment) -> ServerTime {
        self.between(from, to)
            .map(|lead| at(from.max(lead.from), lead))
            .min()
            .unwrap_or(ServerTime::MIN)
    }

    /// The highest time that the clock can have shown between two moments.
    pub(crate) fn latest(&self, from: Moment, to: Moment) -> ServerTime {
        self.between(from, to)
            .map(|lead| at(to.min(lead.to), lead))
            .max()
            .unwrap_or(ServerTime::MAX)
    }

    /// The first moment from `from` on at which the clock can have shown `time`.
    pub(crate) fn first(&self, from: Moment, time: ServerTime) -> Moment {
        self.between(from, Moment::MAX)
            .filter_map(|lead| {
                let by_time = Moment::try_from(time.saturating_sub(lead.ahead)).unwrap_or(0);
                let first = by_time.max(from).max(lead.from);
                (first <= lead.to).then_some(first)
            })
            .min()
            .unwrap_or(Moment::MAX)
    }

    /// Whether from `later` on the clock can have shown less than it had shown until `earlier`:
    /// a server that has lost its tokens may then grant lower ones.
    pub(crate) fn falls_behind(&self, earlier: Moment, later: Moment) -> bool {
        self.leads.len() > 1
            && self.earliest(later.max(earlier), Moment::MAX) < self.latest(0, earlier)
    }

    /// Whether the clock may have been set between two moments.
    pub(crate) fn set_between(&self, from: Moment, to: Moment) -> bool {
        self.steps().any(|(step, _)| step.overlaps(from, to))
    }

    /// When the clock was set back.
    pub(crate) fn set_back(&self) -> impl Iterator<Item = Span> {
        self.steps()
            .filter(|(_, change)| *change < 0)
            .map(|(step, _)| step)
    }

    /// When the clock was set, and by how many microseconds.
    fn steps(&self) -> impl Iterator<Item = (Span, i64)> {
        self.leads.windows(2).map(|pair| {
            let step = Span {
                from: pair[1].from,
                to: pair[0].to,
            };
            (step, pair[1].ahead - pair[0].ahead)
        })
    }

    fn between(&self, from: Moment, to: Moment) -> impl Iterator<Item = &Lead> {
        self.leads
            .iter()
            .filter(move |lead| lead.from <= to.max(from) && lead.to >= from)
    }
}

/// The earliest end of a lease in milliseconds that began at `start`.
pub(crate) fn earliest_end(start: ServerTime, lease: u64) -> ServerTime {
    latest_end(start, lease).saturating_sub(ROUNDING)
}

/// The latest end of a lease in milliseconds that began at `start`.
pub(crate) fn latest_end(start: ServerTime, lease: u64) -> ServerTime {
    let length = ServerTime::try_from(lease).unwrap_or(ServerTime::MAX);
    start.saturating_add(length.saturating_mul(1000))
}

fn at(moment: Moment, lead: &Lead) -> ServerTime {
    ServerTime::try_from(moment)
        .unwrap_or(ServerTime::MAX)
        .saturating_add(lead.ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_nobody_sets_is_the_machine_s() {
        let clock = ServerClock::new(&[]);
        assert_eq!(clock.earliest(10, 20), 10);
        assert_eq!(clock.latest(10, 20), 20);
        assert_eq!(clock.first(10, 15), 15);
        assert_eq!(clock.first(10, 5), 10);
        assert!(!clock.falls_behind(10, 11));
    }

    #[test]
    fn while_a_step_is_made_both_times_are_possible() {
        let steps = [(100, 110, 1000), (200, 210, -50)].map(|(from, to, ahead)| ClockStep {
            at: Span::new(from, to),
            ahead,
        });
        let clock = ServerClock::new(&steps);
        let both = |from, to| (clock.earliest(from, to), clock.latest(from, to));
        assert_eq!(both(90, 99), (90, 99));
        assert_eq!(both(90, 105), (90, 1105));
        assert_eq!(both(120, 130), (1120, 1130));
        assert_eq!(both(150, 220), (150, 1210));
        assert_eq!(both(211, 220), (161, 170));
        assert_eq!(clock.first(50, 500), 100);
        assert_eq!(clock.first(50, 1150), 150);
        assert_eq!(clock.first(50, 5000), 5050);
        assert!(clock.falls_behind(150, 220));
        assert!(!clock.falls_behind(90, 1500));
    }
}
