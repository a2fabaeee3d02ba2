//! No panic crosses into the server.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::context::warn;

/// Runs `body`; a panic in it is caught and handed to `failed` as a text.
pub(super) fn guard<T>(body: impl FnOnce() -> T, failed: impl FnOnce(&str) -> T) -> T {
    // What a panic may leave half done is the module's own state, and that is kept in cells that
    // are written whole, never in the middle of a call.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| failed(text(&*payload)))
}

/// As [`guard`], for callbacks that have no one to answer: the panic is logged.
pub(super) fn guard_logged<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    guard(body, |text| {
        warn(&format!("a fault inside the module was caught: {text}"));
        fallback
    })
}

fn text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_value_with_its_text() {
        assert_eq!(guard(|| 1, |_| 2), 1);
        let caught = guard(|| panic!("{} of {}", 1, 2), str::to_owned);
        assert_eq!(caught, "1 of 2");
        assert_eq!(guard(|| panic!("plain"), str::to_owned), "plain");
    }
}
