//! A turn of a contest, as every program of contenders reports it, and its outcome.

use serde::{Deserialize, Serialize};

/// The contenders' times in their turn.
#[derive(Default, Deserialize, Serialize)]
pub(crate) struct Turn {
    /// The nanoseconds when it began, of a clock that all processes of a contestant share.
    pub(crate) began: u64,
    pub(crate) seconds: f64,
    pub(crate) errors: u64,
    /// Of each contender, grant by grant: when it asked, when it had the grant, and when it sent the release, in
    /// nanoseconds since the turn began. Each contender that waits when the time is up gets one more.
    pub(crate) times: Vec<Vec<u64>>,
    /// Where locks are shared: 1 for each grant of a lock that the contender has alone, else 0. Empty: all are alone.
    #[serde(default)]
    pub(crate) alone: Vec<Vec<u8>>,
}

/// The outcome of a turn.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Grants before the time was up, of each contender; and those after it.
    pub(crate) grants: Vec<u64>,
    pub(crate) late: u64,
    /// From the sending of a release to the receipt of the next grant.
    pub(crate) hand_offs_us: Vec<f64>,
    /// From the call to the grant, late ones too. First of those who want the lock alone.
    pub(crate) waits_us: [Vec<f64>; 2],
}

impl Turn {
    /// The turn of several processes at once: from the first one's beginning to the first one's end.
    pub(crate) fn of(turns: Vec<Self>) -> Self {
        let mut all = Self {
            began: turns.iter().map(|turn| turn.began).min().unwrap_or(0),
            seconds: f64::INFINITY,
            ..Self::default()
        };
        for mut turn in turns {
            let later = turn.began - all.began;
            for time in turn.times.iter_mut().flatten() {
                *time += later;
            }
            all.seconds = all.seconds.min(turn.seconds + later as f64 / 1e9);
            all.errors += turn.errors;
            all.times.append(&mut turn.times);
            all.alone.append(&mut turn.alone);
        }
        all
    }

    /// Contender `number` uses the lock `number % locks`.
    pub(crate) fn outcome(&self, locks: usize) -> Outcome {
        let end = (self.seconds * 1e9) as u64;
        let mut outcome = Outcome::default();
        let mut by_lock = vec![Vec::new(); locks];
        for (number, times) in self.times.iter().enumerate() {
            let (grants, _) = times.as_chunks::<3>();
            let in_time = grants.iter().filter(|[_, granted, _]| *granted <= end);
            let in_time = in_time.count() as u64;
            outcome.grants.push(in_time);
            outcome.late += grants.len() as u64 - in_time;
            let ends = grants
                .iter()
                .map(|[_, granted, released]| [*granted, *released]);
            by_lock[number % locks].extend(ends);
            let alone = self.alone.get(number);
            for (call, [asked, granted, _]) in grants.iter().enumerate() {
                let shares = alone.is_some_and(|alone| alone[call] == 0);
                outcome.waits_us[usize::from(shares)].push(micros(*asked, *granted));
            }
        }
        for mut grants in by_lock {
            grants.sort_unstable();
            let pairs = grants.windows(2).map(|pair| (pair[0][1], pair[1][0]));
            let hand_offs = pairs.filter(|(_, granted)| *granted <= end);
            let hand_offs = hand_offs.map(|(released, granted)| micros(released, granted));
            outcome.hand_offs_us.extend(hand_offs);
        }
        outcome
    }
}

fn micros(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::Turn;

    #[test]
    fn hand_offs_are_between_the_grants_of_one_lock() {
        let turn = Turn {
            began: 0,
            seconds: 1e-5,
            errors: 0,
            times: vec![
                vec![0, 1_000, 2_000, 3_000, 7_000, 8_000],
                vec![],
                vec![500, 4_000, 5_000, 6_000, 11_000, 12_000],
            ],
            alone: vec![vec![1, 0], vec![], vec![0, 0]],
        };
        let outcome = turn.outcome(2);
        assert_eq!((outcome.grants, outcome.late), (vec![2, 0, 1], 1));
        assert_eq!(outcome.hand_offs_us, [2.0, 2.0]);
        assert_eq!(outcome.waits_us, [vec![1.0], vec![4.0, 3.5, 5.0]]);
    }

    #[test]
    fn times_of_several_processes_count_from_the_first_beginning() {
        let turn = |began, seconds, times| Turn {
            began,
            seconds,
            errors: 1,
            times: vec![times],
            alone: Vec::new(),
        };
        let both = Turn::of(vec![
            turn(5_000, 2e-5, vec![0, 4_000, 5_000]),
            turn(2_000, 2e-5, vec![0, 1_000, 2_000]),
        ]);
        assert_eq!((both.began, both.seconds, both.errors), (2_000, 2e-5, 2));
        assert_eq!(both.times[0], [3_000, 7_000, 8_000]);
        assert_eq!(both.outcome(1).hand_offs_us, [5.0]);
    }
}
