//! Figures over several rounds, and their summary.

/// One figure for each round; NaN for a round without one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds(Vec<f64>);

/// The median of a figure over the rounds, and where these lie: between the minimum and the maximum, or
/// between the quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl From<f64> for Rounds {
    fn from(figure: f64) -> Self {
        Self(vec![figure])
    }
}

impl Rounds {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The median, the minimum and the maximum; `None` when nothing was measured.
    pub(crate) fn spread(&self) -> Option<Spread> {
        self.between(0.0)
    }

    /// The median and the quartiles: of many short turns a few are always disturbed.
    pub(crate) fn quartiles(&self) -> Option<Spread> {
        self.between(0.25)
    }

    /// The median, and what has this part of all below it, and as much above.
    fn between(&self, part: f64) -> Option<Spread> {
        let mut values: Vec<f64> = self.0.iter().copied().filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let off = (part * last as f64).round() as usize;
        Some(Spread {
            low: values[off],
            median: values[values.len() / 2],
            high: values[last - off],
        })
    }

    /// The ratio to another figure, round by round, so that what disturbs a whole round cancels out.
    pub(crate) fn over(&self, base: &Self) -> Self {
        Self(self.0.iter().zip(&base.0).map(|(a, b)| a / b).collect())
    }
}

/// The median, the 99th percentile and the largest; NaN when there are none.
pub(crate) fn percentiles(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [0.5, 0.99, 1.0].map(|part| {
        let rank = (part * values.len() as f64).ceil() as usize;
        let value = values.get(rank.saturating_sub(1));
        value.copied().unwrap_or(f64::NAN)
    })
}

/// Runs every contestant once a round, in an order that begins with another one each time, after a round that does not
/// count. Returns the figures of each contestant.
pub(crate) fn interleave<C, F: AsRef<[f64]>>(
    rounds: usize,
    contestants: &mut [C],
    run: impl FnMut(&mut C) -> F,
) -> Vec<Vec<Rounds>> {
    interleave_slices(rounds, 1, contestants, run)
}

/// As [`interleave`], but every contestant runs once in each slice of a round; the figure of a round is the
/// mean of its slices. So what disturbs the machine for longer than a slice affects all contestants.
pub(crate) fn interleave_slices<C, F: AsRef<[f64]>>(
    rounds: usize,
    slices: usize,
    contestants: &mut [C],
    mut run: impl FnMut(&mut C) -> F,
) -> Vec<Vec<Rounds>> {
    let count = contestants.len();
    let mut all = vec![Vec::new(); count];
    for round in 0..=rounds {
        let mut sums = vec![Vec::new(); count];
        for slice in 0..slices {
            for index in (0..count).map(|position| (position + round + slice) % count) {
                let figures = run(&mut contestants[index]);
                sums[index].resize(figures.as_ref().len(), 0.0);
                for (sum, figure) in sums[index].iter_mut().zip(figures.as_ref()) {
                    *sum += figure;
                }
            }
        }
        if round == 0 {
            continue;
        }
        for (kept, sums) in all.iter_mut().zip(&sums) {
            kept.resize(sums.len(), Rounds::default());
            for (kept, sum) in kept.iter_mut().zip(sums) {
                kept.push(sum / slices as f64);
            }
        }
    }
    all
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // nothing is rounded
mod tests {
    use super::*;

    fn rounds(values: &[f64]) -> Rounds {
        Rounds(values.to_vec())
    }

    #[test]
    fn a_spread_is_around_the_median_and_quartiles_leave_out_what_is_far_off() {
        let found = |spread: Option<Spread>| spread.map(|it| [it.low, it.median, it.high]);
        let all = rounds(&[3.0, 99.0, 2.0, 1.0, 4.0]);
        assert_eq!(found(all.spread()), Some([1.0, 3.0, 99.0]));
        assert_eq!(found(all.quartiles()), Some([2.0, 3.0, 4.0]));
        assert_eq!(found(rounds(&[7.0]).quartiles()), Some([7.0; 3]));
        for none in [Rounds::default(), rounds(&[f64::NAN])] {
            assert_eq!((none.spread(), none.quartiles()), (None, None));
        }
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        let ratio = rounds(&[2.0, 20.0, 600.0]).over(&rounds(&[1.0, 10.0, 100.0]));
        assert_eq!(ratio.0, [2.0, 2.0, 6.0]);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentiles(&mut values), [50.0, 99.0, 100.0]);
        assert_eq!(percentiles(&mut [7.0]), [7.0; 3]);
        assert!(percentiles(&mut [])[0].is_nan());
    }

    #[test]
    fn every_contestant_runs_once_a_round_and_the_first_round_does_not_count() {
        let mut runs = [0.0, 0.0, 0.0];
        let figures = interleave(7, &mut runs, |count| {
            *count += 1.0;
            [*count]
        });
        assert_eq!(runs, [8.0; 3]);
        for figures in figures {
            assert_eq!(figures[0].0, [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        }
    }

    #[test]
    fn a_round_of_slices_is_their_mean() {
        let mut runs = [(0.0, "a"), (100.0, "b")];
        let mut turns = Vec::new();
        let figures = interleave_slices(1, 3, &mut runs, |(count, name)| {
            turns.push(*name);
            *count += 1.0;
            [*count, -*count]
        });
        let figures: Vec<_> = figures
            .concat()
            .into_iter()
            .map(|rounds| rounds.0)
            .collect();
        assert_eq!(figures, [[5.0], [-5.0], [105.0], [-105.0]]);
        assert_eq!(turns.concat(), "abbaab".to_owned() + "baabba");
    }
}
