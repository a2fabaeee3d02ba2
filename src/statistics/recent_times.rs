//! Percentiles of the times of the last few minutes, in bounded memory.
//!
//! Each half minute has a histogram that is exact to 1 %. A new half minute reuses the oldest histogram. A summary adds
//! up all histograms.

use hdrhistogram::Histogram;

/// The time that one histogram covers.
const SPAN_MS: u64 = 30_000;
/// Five minutes.
const SPANS: usize = 10;
/// The number of exact digits of each time.
const DIGITS: u8 = 2;
/// In the percentiles longer times count as a day. The maximum is exact.
const ONE_DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The times of the last few minutes.
#[derive(Debug, Default)]
pub(crate) struct RecentTimes {
    /// Created when the first time is recorded.
    spans: Vec<Span>,
    /// The index of the current span.
    current: usize,
    /// When the current span began.
    began_ms: u64,
}

/// Percentiles in milliseconds; 0 if no time was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimesSummary {
    /// The median.
    pub(crate) p50: u64,
    /// The 99th percentile.
    pub(crate) p99: u64,
    /// The maximum.
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
    /// An empty record.
    pub(crate) const fn new() -> Self {
        Self {
            spans: Vec::new(),
            current: 0,
            began_ms: 0,
        }
    }

    /// Records a time. After a backward step of the clock the time counts for the current span. A step that is longer
    /// than all spans clears them.
    pub(crate) fn record(&mut self, now_ms: u64, time_ms: u64) {
        // Check the usual case first, because this runs in every release.
        if now_ms.wrapping_sub(self.began_ms) >= SPAN_MS {
            self.advance(now_ms);
        }
        if self.spans.is_empty() {
            self.spans = vec![Span::new(); SPANS];
        }
        if let Some(span) = self.spans.get_mut(self.current) {
            span.times.saturating_record(time_ms);
            span.max_ms = span.max_ms.max(time_ms);
        }
    }

    /// The percentiles of the last few minutes.
    pub(crate) fn summary(&mut self, now_ms: u64) -> TimesSummary {
        if self.spans.is_empty() {
            return TimesSummary::default();
        }
        self.advance(now_ms);
        let mut all = Span::new();
        for span in &self.spans {
            // Adding cannot fail, because all histograms have the same bounds.
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
            self.current = (self.current + 1) % SPANS;
            if let Some(span) = self.spans.get_mut(self.current) {
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
    fn without_times_the_summary_is_zero() {
        assert_eq!(RecentTimes::new().summary(5), TimesSummary::default());
    }

    #[test]
    fn percentiles_are_exact_to_one_percent_and_the_maximum_is_exact() {
        let mut times = RecentTimes::new();
        for time in 1..=1000 {
            times.record(0, time * 10);
        }
        let summary = times.summary(0);
        assert!((4950..=5050).contains(&summary.p50), "{summary:?}");
        assert!((9801..=9999).contains(&summary.p99), "{summary:?}");
        assert_eq!(summary.max, 10_000);
    }

    #[test]
    fn a_single_time_is_exact() {
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
    fn a_clock_that_is_set_back_loses_few_times_and_recording_continues() {
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
            "and it continues from there"
        );
    }

    #[test]
    fn a_time_above_a_day_is_the_maximum() {
        let mut times = RecentTimes::new();
        times.record(0, u64::MAX);
        assert_eq!(times.summary(0).max, u64::MAX);
        assert!(times.summary(0).p50 >= ONE_DAY_MS);
    }
}
