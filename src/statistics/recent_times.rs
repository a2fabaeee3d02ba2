//! How long something took, over the last few minutes, in memory that does not grow.
//!
//! Each half minute has a histogram of its own, exact to a hundredth; the oldest one makes room for
//! the next. What is told is their sum.

use hdrhistogram::Histogram;

/// How much of the past one histogram covers.
const SPAN_MS: u64 = 30_000;
/// How many there are: five minutes.
const SPANS: usize = 10;
/// Two digits of each time are kept.
const DIGITS: u8 = 2;
/// Longer times count as a day among the percentiles; the longest of all is kept as it is.
const ONE_DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The times of the last few minutes.
#[derive(Debug, Default)]
pub(crate) struct RecentTimes {
    /// Made with the first time that is recorded.
    spans: Vec<Span>,
    /// Which of them is filled now.
    filled: usize,
    /// When that one began.
    began_ms: u64,
}

/// In milliseconds; 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimesSummary {
    /// Half of the times were no longer.
    pub(crate) p50: u64,
    /// 99 of 100 were no longer.
    pub(crate) p99: u64,
    /// The longest.
    pub(crate) max: u64,
}

#[derive(Clone, Debug)]
struct Span {
    times: Histogram<u32>,
    max_ms: u64,
}

impl Span {
    fn new() -> Self {
        let times = Histogram::new_with_bounds(1, ONE_DAY_MS, DIGITS);
        Self {
            times: times.expect("bounds that a histogram takes"),
            max_ms: 0,
        }
    }

    fn clear(&mut self) {
        self.times.reset();
        self.max_ms = 0;
    }
}

impl RecentTimes {
    /// No time yet.
    pub(crate) const fn new() -> Self {
        Self {
            spans: Vec::new(),
            filled: 0,
            began_ms: 0,
        }
    }

    /// Records a time that ended now. The clock may be set back: what is then recorded counts to
    /// the span that is filled, and after a step of more than all spans everything begins anew.
    pub(crate) fn record(&mut self, now_ms: u64, time_ms: u64) {
        // The usual case first: this is done for every lock that is released.
        if now_ms.wrapping_sub(self.began_ms) >= SPAN_MS {
            self.advance(now_ms);
        }
        if self.spans.is_empty() {
            self.spans = vec![Span::new(); SPANS];
        }
        if let Some(span) = self.spans.get_mut(self.filled) {
            span.times.saturating_record(time_ms);
            span.max_ms = span.max_ms.max(time_ms);
        }
    }

    /// What the last few minutes come to.
    pub(crate) fn summary(&mut self, now_ms: u64) -> TimesSummary {
        if self.spans.is_empty() {
            return TimesSummary::default();
        }
        self.advance(now_ms);
        let mut all = Span::new();
        for span in &self.spans {
            // All have the same bounds.
            let _ = all.times.add(&span.times);
            all.max_ms = all.max_ms.max(span.max_ms);
        }
        let at = |quantile| all.times.value_at_quantile(quantile).min(all.max_ms);
        TimesSummary {
            p50: at(0.5),
            p99: at(0.99),
            max: all.max_ms,
        }
    }

    fn advance(&mut self, now_ms: u64) {
        if now_ms.abs_diff(self.began_ms) >= SPAN_MS * SPANS as u64 {
            self.spans.iter_mut().for_each(Span::clear);
            self.began_ms = now_ms - now_ms % SPAN_MS;
        }
        while self.began_ms + SPAN_MS <= now_ms {
            self.began_ms += SPAN_MS;
            self.filled = (self.filled + 1) % SPANS;
            if let Some(span) = self.spans.get_mut(self.filled) {
                span.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    #[test]
    fn nothing_recorded_is_nothing_told() {
        assert_eq!(RecentTimes::new().summary(5), TimesSummary::default());
    }

    #[test]
    fn percentiles_are_exact_to_a_hundredth_and_the_longest_wholly() {
        let mut times = RecentTimes::new();
        for time in 1..=1000 {
            times.record(0, time * 10);
        }
        let told = times.summary(0);
        assert!((4950..=5050).contains(&told.p50), "{told:?}");
        assert!((9801..=9999).contains(&told.p99), "{told:?}");
        assert_eq!(told.max, 10_000);
    }

    #[test]
    fn one_time_is_told_as_it_is() {
        let mut times = RecentTimes::new();
        times.record(0, 12_345);
        assert_eq!(
            times.summary(0),
            TimesSummary {
                p50: 12_345,
                p99: 12_345,
                max: 12_345
            }
        );
        times.record(0, 0);
        assert_eq!(times.summary(0).p50, 0);
    }

    #[test]
    fn times_are_forgotten_after_five_minutes() {
        let mut times = RecentTimes::new();
        let start = 1_000 * MINUTE;
        times.record(start, 700);
        times.record(start + 3 * MINUTE, 20);
        assert_eq!(times.summary(start + 4 * MINUTE).max, 700);
        assert_eq!(times.summary(start + 5 * MINUTE).max, 20);
        assert_eq!(times.summary(start + 8 * MINUTE), TimesSummary::default());
        times.record(start + 60 * MINUTE, 3);
        assert_eq!(times.summary(start + 60 * MINUTE).max, 3);
    }

    #[test]
    fn a_clock_that_is_set_back_loses_little_and_stops_nothing() {
        let mut times = RecentTimes::new();
        let start = 1_000 * MINUTE;
        times.record(start, 700);
        times.record(start - 1, 30);
        assert_eq!(times.summary(start - 1).max, 700);
        times.record(start - 60 * MINUTE, 5);
        assert_eq!(times.summary(start - 60 * MINUTE).max, 5);
        assert_eq!(
            times.summary(start - 55 * MINUTE),
            TimesSummary::default(),
            "and it goes on from there"
        );
    }

    #[test]
    fn a_time_beyond_a_day_is_kept_as_the_longest() {
        let mut times = RecentTimes::new();
        times.record(0, u64::MAX);
        assert_eq!(times.summary(0).max, u64::MAX);
        assert!(times.summary(0).p50 >= ONE_DAY_MS);
    }
}
