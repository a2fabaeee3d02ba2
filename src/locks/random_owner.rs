//! Random owners, for calls that give `*` as their owner.

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng};
use redis_lock_core::Owner;
use uuid::Builder;
use uuid::fmt::Hyphenated;

use crate::server::{Context, GilCell};

/// Seeded once, so that a new owner costs no system call.
static GENERATOR: GilCell<Option<StdRng>> = GilCell::new(None);

pub(super) fn load(context: Context<'_>) -> Result<(), &'static str> {
    let seeded = StdRng::try_from_rng(&mut SysRng)
        .map_err(|_| "the system gave no random bytes to seed owner names with")?;
    GENERATOR.with(context, |generator| *generator = Some(seeded));
    Ok(())
}

/// A version 4 UUID as text.
pub(crate) struct RandomOwner([u8; Hyphenated::LENGTH]);

impl RandomOwner {
    pub(crate) fn owner(&self) -> Option<Owner<'_>> {
        Owner::new(&self.0)
    }
}

/// A random number.
pub(crate) fn random_number(context: Context<'_>) -> u64 {
    let mut bytes = [0; 8];
    fill(context, &mut bytes);
    u64::from_ne_bytes(bytes)
}

/// A new random owner.
pub(crate) fn random_owner(context: Context<'_>) -> RandomOwner {
    let mut bytes = [0; 16];
    fill(context, &mut bytes);
    let mut text = [0; Hyphenated::LENGTH];
    Builder::from_random_bytes(bytes)
        .into_uuid()
        .hyphenated()
        .encode_lower(&mut text);
    RandomOwner(text)
}

fn fill(context: Context<'_>, bytes: &mut [u8]) {
    GENERATOR.with(context, |generator| {
        generator
            .as_mut()
            .expect("a generator that was seeded when the module was loaded")
            .fill_bytes(bytes);
    });
}
