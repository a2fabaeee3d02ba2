//! Detects other loaded modules, whose code may run inside a call of the server.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Context;
use super::events::{ServerEvent, subscribe};

/// True if no other modules are loaded; false if in doubt.
static ALONE: AtomicBool = AtomicBool::new(false);

/// Checks for other modules now, and whenever a module is loaded or unloaded.
pub(super) fn watch(context: Context<'_>) {
    update(context);
    subscribe(context, ServerEvent::ModulesChanged, update);
}

/// Returns true if no other module is loaded.
pub(super) fn none() -> bool {
    ALONE.load(Ordering::Relaxed)
}

fn update(context: Context<'_>) {
    // Assume that there are other modules if the server refuses to list them.
    let alone = context
        .modules()
        .is_some_and(|modules| modules.iter().all(|name| name == OWN_NAME));
    ALONE.store(alone, Ordering::Relaxed);
}

/// The name of this module, which the list may contain.
const OWN_NAME: &str = "lock";
