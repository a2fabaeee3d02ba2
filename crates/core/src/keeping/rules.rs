//! Which leases may be kept.

use super::silence::Keep;
use crate::{Lease, Refusal};

/// The shortest lease that is kept, in milliseconds.
const SHORTEST: u64 = 1000;

/// True when a grant with this lease may be kept.
pub(crate) const fn can_keep(lease: Lease) -> bool {
    lease.millis() >= SHORTEST
}

/// Checks the lease that a grant is to have: a kept one is a second or more. `is_kept` says that the grant
/// is kept before the call. It is the last check: every other refusal of the call comes first.
///
/// # Errors
///
/// [`Refusal::LeaseTooShortToKeep`] when the call asks to keep a shorter one, and
/// [`Refusal::KeptLeaseTooShort`] when it would shorten that of a kept grant.
pub const fn check_lease(keep: Option<Keep>, is_kept: bool, lease: Lease) -> Result<(), Refusal> {
    match keep {
        _ if can_keep(lease) => Ok(()),
        Some(Keep::For(_)) => Err(Refusal::LeaseTooShortToKeep),
        None if is_kept => Err(Refusal::KeptLeaseTooShort),
        Some(Keep::End) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Silence;
    use super::{Keep, Lease, Refusal, check_lease};

    #[test]
    fn a_kept_lease_is_a_second_or_more() {
        let [short, long] = [999, 1000].map(|ms| Lease::from_millis(ms).unwrap());
        let keep = Some(Keep::For(Silence::MIN));
        for (keep, is_kept, refusal) in [
            (keep, false, Some(Refusal::LeaseTooShortToKeep)),
            (keep, true, Some(Refusal::LeaseTooShortToKeep)),
            (None, true, Some(Refusal::KeptLeaseTooShort)),
            (None, false, None),
            (Some(Keep::End), true, None),
            (Some(Keep::End), false, None),
        ] {
            assert_eq!(check_lease(keep, is_kept, short).err(), refusal);
            assert_eq!(check_lease(keep, is_kept, long), Ok(()));
        }
    }
}
