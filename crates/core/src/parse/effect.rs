//! `effect` of `LOCK._APPLY`

use super::syntax::{Argument, Kind};
use super::words::Words;
use crate::{EffectError, LockChange, is_quiet};

/// The words of an effect.
pub const EFFECT: &[Argument] = &[Argument::new(c"effect", Kind::String)];

/// Reads an effect, and whether it is quiet. Words after it come from a later version and are ignored.
///
/// # Errors
///
/// [`EffectError`] when it is none, or one of another version.
pub fn effect<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<(LockChange<'a>, bool), EffectError> {
    let effect = words.next().unwrap_or_default();
    Ok((LockChange::from_effect(effect)?, is_quiet(effect)))
}
