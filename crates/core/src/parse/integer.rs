//! Integers as Redis parses them.

/// Parses a decimal integer as the server's own commands do: no blanks, no `+`, no leading zeros.
pub(super) fn parse(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    digits.iter().try_fold(0_i64, |number, digit| {
        let value = i64::from(digit.checked_sub(b'0').filter(|value| *value < 10)?);
        let number = number.checked_mul(10)?;
        if negative {
            number.checked_sub(value)
        } else {
            number.checked_add(value)
        }
    })
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
