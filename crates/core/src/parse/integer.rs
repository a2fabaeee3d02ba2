//! Parses integers like Redis does.

/// Parses a decimal integer as the server's own commands do: no blanks, no `+`, no leading zeros.
pub(super) fn parse(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        // Up to 19 digits fit into 64 bits.
        [b'1'..=b'9', ..] if digits.len() < 20 => {}
        _ => return None,
    }
    // Parse eight digits at a time: tokens and session ids have sixteen digits.
    let (eights, rest) = digits.as_chunks();
    let number = eights.iter().try_fold(0_u64, |number, eight| {
        Some(number * 100_000_000 + eight_digits(*eight)?)
    })?;
    let number = rest.iter().try_fold(number, |number, digit| {
        let value = digit.wrapping_sub(b'0');
        (value < 10).then_some(number * 10 + u64::from(value))
    })?;
    if negative {
        0_i64.checked_sub_unsigned(number)
    } else {
        i64::try_from(number).ok()
    }
}

/// Parses eight digits in parallel: first into pairs, then into groups of four, then into one number.
fn eight_digits(bytes: [u8; 8]) -> Option<u64> {
    let text = u64::from_le_bytes(bytes);
    // The high bit of a byte is set if the digit is above 9, or below 0.
    let above = text.wrapping_add(0x4646_4646_4646_4646);
    let values = text.wrapping_sub(0x3030_3030_3030_3030);
    if (above | values) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = (values.wrapping_mul(10) + (values >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_those_that_redis_accepts() {
        for (text, number) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("-12", Some(-12)),
            ("12345678", Some(12_345_678)),
            ("9007199254740991", Some(9_007_199_254_740_991)),
            ("1234567/", None),
            ("1234:678", None),
            ("900719925474 991", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1 ", None),
            ("1.0", None),
            ("1e3", None),
            ("0x10", None),
            ("1:", None),
            ("1/", None),
            ("-01", None),
            ("१", None),
        ] {
            assert_eq!(parse(text.as_bytes()), number, "{text:?}");
        }
        assert_eq!(parse(b"1\0"), None);
        assert_eq!(parse(b"1\xff"), None);
    }
}
