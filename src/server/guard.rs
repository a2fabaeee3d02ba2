//! Catches panics at the entry points, so that no panic reaches the server.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::context::warn;

/// Runs `body`. If it panics, passes the text of the panic to `report` and returns `fallback`. A panic in `report` is
/// ignored.
pub(super) fn guard<T>(fallback: T, body: impl FnOnce() -> T, report: impl FnOnce(&str)) -> T {
    // A panic may leave the module's own state inconsistent. But no `unsafe` code depends on that state: answering a
    // blocked client consumes its handle, and each command opens its own key. So the worst consequence is a wrong
    // answer later.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let reported = catch_unwind(AssertUnwindSafe(|| report(text(&*payload))));
        drop(reported);
        fallback
    })
}

/// Like [`guard`], but for callbacks without a caller that could get an error. The panic is logged.
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
