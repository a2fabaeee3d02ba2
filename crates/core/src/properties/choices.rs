//! Turns test bytes into choices.

use std::fmt::Debug;
use std::ops::RangeInclusive;

/// Bytes that make choices in order. After the last byte they start again from the first.
pub(super) struct Choices<'a> {
    bytes: &'a [u8],
    used: usize,
}

impl<'a> Choices<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, used: 0 }
    }

    /// A number of this range, from as many bytes as needed. Zero bytes give the first number.
    pub(super) fn number(&mut self, range: RangeInclusive<u64>) -> u64 {
        let width = range.end() - range.start();
        let (mut number, mut reach) = (0, 0);
        while reach < width {
            let byte = self.bytes.get(self.used % self.bytes.len().max(1));
            self.used += 1;
            number = number << 8 | u64::from(byte.copied().unwrap_or_default());
            reach = reach << 8 | 0xff;
        }
        range.start() + number.checked_rem(width + 1).unwrap_or(number)
    }

    pub(super) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.number(0..=length as u64 - 1)).expect("an index")
    }

    /// A number that differs from the given one by a number of this range. Zero bytes give no difference.
    pub(super) fn near(&mut self, number: u64, by: RangeInclusive<i64>) -> u64 {
        let below = by.start().unsigned_abs();
        let width = by.end().abs_diff(*by.start());
        let above = (self.number(0..=width) + below) % (width + 1);
        number.saturating_add(above).saturating_sub(below)
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())]
    }

    /// True in this many of 16 cases.
    pub(super) fn chance(&mut self, of_16: u64) -> bool {
        self.number(0..=15) >= 16 - of_16
    }

    /// A value in this many of 16 cases.
    pub(super) fn maybe<T>(&mut self, of_16: u64, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance(of_16).then(|| value(self))
    }
}

/// The steps so far, printed when a check fails.
pub(super) struct Trace<T: Debug>(pub(super) Vec<T>);

impl<T: Debug> Drop for Trace<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (number, step) in self.0.iter().enumerate() {
                eprintln!("{number}: {step:?}");
            }
        }
    }
}
