//! Catches panics at the entry points, so that none crosses into the server.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::context::warn;

/// Runs `body`. A panic in it is caught and its text passed to `report`, and `fallback` is returned. A panic
/// in `report` is caught and dropped.
pub(super) fn guard<T>(fallback: T, body: impl FnOnce() -> T, report: impl FnOnce(&str)) -> T {
    // A panic may leave the module's own state half changed. No `unsafe` depends on that state: the
    // handle of a blocked client is given away when it is answered, and each command opens its key.
    // So the worst is a wrong answer later.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let reported = catch_unwind(AssertUnwindSafe(|| report(text(&*payload))));
        drop(reported);
        fallback
    })
}

/// As [`guard`], for callbacks without a caller to answer: the panic is logged.
pub(super) fn guard_logged<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    guard(fallback, body, |text| {
        warn(&format!("a fault inside the module was caught: {text}"));
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
        assert_eq!(guard(2, || 1, |_| unreachable!()), 1);
        let mut caught = String::new();
        assert_eq!(
            guard(2, || panic!("{} of {}", 1, 2), |text| caught += text),
            2
        );
        assert_eq!(caught, "1 of 2");
        guard((), || panic!(" plain"), |text| caught += text);
        assert_eq!(caught, "1 of 2 plain");
    }

    #[test]
    fn a_panic_in_the_report_of_another_is_caught() {
        assert_eq!(guard(2, || panic!("first"), |_| panic!("second")), 2);
    }
}
