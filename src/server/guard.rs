//! No panic crosses into the server.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::context::warn;

/// Runs `body`. A panic in it is caught, and told to `tell` as a text; one in there is the last word.
/// Either way `fallback` comes back.
pub(super) fn guard<T>(fallback: T, body: impl FnOnce() -> T, tell: impl FnOnce(&str)) -> T {
    // What a panic may leave half done is the module's own state, such as that of who waits. No
    // `unsafe` depends on what is in there: a blocked client is answered by giving its one handle
    // away, and a key is opened anew by each command. So at worst a later call finds the state odd.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let told = catch_unwind(AssertUnwindSafe(|| tell(text(&*payload))));
        drop(told);
        fallback
    })
}

/// As [`guard`], for callbacks that have no one to answer: the panic is logged.
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
    fn a_panic_while_another_is_told_goes_no_further() {
        assert_eq!(guard(2, || panic!("first"), |_| panic!("second")), 2);
    }
}
