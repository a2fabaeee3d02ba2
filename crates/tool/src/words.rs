//! Formats names and durations for the screen.

use std::fmt::Write;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Formats a key, an owner, or any text of a server. Anyone may choose these bytes, so everything except plain text is
/// escaped as `\x..`, and no name can control the terminal.
pub fn name<T: AsRef<[u8]> + ?Sized>(bytes: &T) -> String {
    let mut text = String::new();
    for chunk in bytes.as_ref().utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() || is_invisible(letter) {
                let mut buffer = [0; 4];
                hex(&mut text, letter.encode_utf8(&mut buffer).as_bytes());
            } else {
                text.push(letter);
            }
        }
        hex(&mut text, chunk.invalid());
    }
    text
}

/// Shortens a name to at most `width` columns. Cuts the middle, because names differ most at their ends.
pub fn cut(text: &str, width: usize) -> String {
    let letters: Vec<_> = text.chars().collect();
    if letters.len() <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (front, back) = (kept / 2, kept - kept / 2);
    let front = letters[..front].iter();
    let back = letters[letters.len() - back..].iter();
    front.chain(&['…']).chain(back).collect()
}

/// Shortens an owner to at most `width` columns. Cuts the unique part of `service:host:pid:unique` first, and then the
/// beginning, because an operator looks for the host and the process.
pub fn cut_owner(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let Some(unique) = end_of_pid(text) else {
        return cut(text, width);
    };
    let who = &text[..unique];
    let behind = if unique < text.len() { "…" } else { "" };
    let room = width.saturating_sub(behind.chars().count());
    let letters = who.chars().count();
    if letters <= room {
        return format!("{who}{behind}");
    }
    let kept: String = who.chars().skip(letters - room.saturating_sub(1)).collect();
    format!("…{kept}{behind}")
}

/// The index at which the process id ends. The process id is the first part that has only digits and two parts before it.
fn end_of_pid(owner: &str) -> Option<usize> {
    let mut end = 0;
    for (number, part) in owner.split(':').enumerate() {
        end += part.len();
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if number >= 2 && is_number {
            return Some(end);
        }
        end += 1;
    }
    None
}

/// Characters that change the direction of text or take no space, so that different names would look alike.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

/// Formats a duration in at most seven characters. A negative duration (the server's -1) is `never`.
pub fn length(ms: i64) -> String {
    match ms {
        ..0 => "never".to_owned(),
        0..SECOND => format!("{ms}ms"),
        SECOND..MINUTE => format!("{}.{}s", ms / SECOND, ms % SECOND / 100),
        MINUTE..HOUR => format!("{}m{:02}s", ms / MINUTE, ms % MINUTE / SECOND),
        HOUR..DAY => format!("{}h{:02}m", ms / HOUR, ms % HOUR / MINUTE),
        _ => format!("{}d{:02}h", ms / DAY, ms % DAY / HOUR),
    }
}

#[cfg(test)]
mod tests {
    use super::{cut, cut_owner, length, name};

    #[test]
    fn a_name_cannot_control_the_terminal() {
        assert_eq!(name(b"orders:42"), "orders:42");
        assert_eq!(name("größe"), "größe");
        assert_eq!(name(b"\x1b[2J\xff\n"), "\\x1b[2J\\xff\\x0a");
        assert_eq!(name("a\u{202e}b"), "a\\xe2\\x80\\xaeb");
    }

    #[test]
    fn a_long_name_keeps_both_ends() {
        assert_eq!(
            cut("stock-sync:web-3:2004:task-1", 28),
            "stock-sync:web-3:2004:task-1"
        );
        assert_eq!(cut("stock-sync:web-3:2004:task-1", 15), "stock-s…:task-1");
        assert_eq!(cut("größer", 4), "g…er");
        assert_eq!(cut("k", 0), "…");
    }

    #[test]
    fn a_long_owner_keeps_its_host_and_process() {
        let owner = "billing:web-2:30817:6f1c2a9e-8d54-4c1e-9b0a-2f6d7e1c3b58";
        assert_eq!(cut_owner(owner, 60), owner);
        assert_eq!(cut_owner(owner, 25), "billing:web-2:30817…");
        assert_eq!(cut_owner(owner, 20), "billing:web-2:30817…");
        assert_eq!(cut_owner(owner, 14), "…:web-2:30817…");
        assert_eq!(cut_owner("billing:web-2:30817", 12), "…web-2:30817");
        // The name of the service may contain anything, and a thread may follow the process.
        assert_eq!(cut_owner("a:b:c:web-2:7:x:9", 14), "a:b:c:web-2:7…");
        // Owners without this form.
        assert_eq!(cut_owner("user-4711-with-a-seat", 8), "use…seat");
        assert_eq!(cut_owner("k:1:2", 0), "…");
    }

    #[test]
    fn durations_are_short() {
        let written = [
            -1, 0, 999, 1_000, 59_950, 60_000, 3_599_000, 3_600_000, 90_000_000,
        ];
        let expected = [
            "never", "0ms", "999ms", "1.0s", "59.9s", "1m00s", "59m59s", "1h00m", "1d01h",
        ];
        assert_eq!(written.map(length), expected);
    }
}
