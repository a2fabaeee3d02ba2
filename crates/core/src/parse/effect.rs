//! `effect` of `LOCK._APPLY`

use super::syntax::{Argument, Kind};
use super::words::Words;
use crate::{EffectError, LockChange, is_quiet};

/// The words of an effect.
pub const EFFECT: &[Argument] = &[Argument::new(c"effect", Kind::String)];

/// Reads an effect, and whether it is quiet. Further words are ignored, because they come from a later version.
///
/// # Errors
///
/// [`EffectError`] if the word is not an effect of a known version.
pub fn effect<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<(LockChange<'a>, bool), EffectError> {
    let effect = words.next().unwrap_or_default();
    Ok((LockChange::from_effect(effect)?, is_quiet(effect)))
}
