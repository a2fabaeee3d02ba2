//! Whether other modules are loaded, whose code may run inside a call of the server.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Context;
use super::events::{ServerEvent, subscribe};

/// True when there are certainly none.
static ALONE: AtomicBool = AtomicBool::new(false);

/// Looks for other modules now and whenever one is loaded or unloaded.
pub(super) fn watch(context: Context<'_>) {
    update(context);
    subscribe(context, ServerEvent::ModulesChanged, update);
}

/// True when no other module is loaded.
pub(super) fn none() -> bool {
    ALONE.load(Ordering::Relaxed)
}

fn update(context: Context<'_>) {
    // If the server does not list them, there may be some.
    let alone = context
        .modules()
        .is_some_and(|modules| modules.iter().all(|name| name == OWN_NAME));
    ALONE.store(alone, Ordering::Relaxed);
}

/// The name of this module, which may be in the list.
const OWN_NAME: &str = "lock";
