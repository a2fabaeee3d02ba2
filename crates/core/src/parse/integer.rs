//! Integers as Redis parses them.

/// Parses a decimal integer as the server's own commands do: no blanks, no `+`, no leading zeros.
pub(super) fn parse(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        // So many digits are no more than 2^64.
        [b'1'..=b'9', ..] if digits.len() < 20 => {}
        _ => return None,
    }
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let value = digit.wrapping_sub(b'0');
        (value < 10).then_some(number * 10 + u64::from(value))
    })?;
    if negative {
        0_i64.checked_sub_unsigned(number)
    } else {
        i64::try_from(number).ok()
    }
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
