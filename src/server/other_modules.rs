//! Whether other modules are loaded: code of theirs may run inside a call of the server.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Context;
use super::events::{ServerEvent, subscribe};

/// True while it is known that there are none.
static ALONE: AtomicBool = AtomicBool::new(false);

/// Looks for other modules, now and whenever one comes or goes.
pub(super) fn watch(context: Context<'_>) {
    look(context);
    subscribe(context, ServerEvent::ModulesChanged, look);
}

/// No other module is loaded.
pub(super) fn none() -> bool {
    ALONE.load(Ordering::Relaxed)
}

fn look(context: Context<'_>) {
    // Where the server does not tell, there may be some.
    let alone = context
        .modules()
        .is_some_and(|modules| modules.iter().all(|name| name == OWN_NAME));
    ALONE.store(alone, Ordering::Relaxed);
}

/// What this module is called, where it is in the list already.
const OWN_NAME: &str = "lock";
