//! Decimal numbers without an allocation.

/// The longest: a sign and nineteen digits.
const MAX: usize = 20;

/// A number in decimal digits.
pub(super) struct Decimal {
    bytes: [u8; MAX],
    start: usize,
}

impl Decimal {
    pub(super) fn new(number: i64) -> Self {
        let mut text = Self {
            bytes: [0; MAX],
            start: MAX,
        };
        let mut rest = number.unsigned_abs();
        loop {
            #[allow(clippy::cast_possible_truncation)] // less than ten
            text.put(b'0' + (rest % 10) as u8);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            text.put(b'-');
        }
        text
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn put(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[self.start] = byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_does() {
        for number in [
            0,
            7,
            10,
            30_000,
            -1,
            -10,
            1_700_000_000_123,
            i64::MAX,
            i64::MIN,
        ] {
            let text = Decimal::new(number);
            assert_eq!(text.bytes(), number.to_string().as_bytes());
        }
    }
}
