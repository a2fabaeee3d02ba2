//! A cycle of owners that would wait for each other.

use std::ffi::CString;

use crate::{LockId, OwnerBuf};

/// A cycle of waits. Each owner waits for a lock that the next owner holds. The last owner waits for a lock that the
/// first one holds, which is the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle(pub(super) Vec<(OwnerBuf, LockId)>);

impl Cycle {
    /// Each owner and the lock that it waits for, beginning with the caller.
    #[must_use]
    pub fn waits(&self) -> &[(OwnerBuf, LockId)] {
        &self.0
    }

    /// The error for the caller.
    #[must_use]
    pub fn text(&self) -> CString {
        let owners = self.0.len();
        let text = format!(
            "DEADLOCK waiting would create a deadlock cycle of {owners} owners: \
             release something first"
        );
        CString::new(text).unwrap_or_default()
    }
}
