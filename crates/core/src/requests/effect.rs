//! `effect` of `LOCK._APPLY`

use super::syntax::{Argument, Kind};
use super::words::Words;
use crate::sharing::Transition;
use crate::{EffectError, is_quiet};

/// The words of an effect.
pub const EFFECT: &[Argument] = &[Argument::new(c"effect", Kind::String)];

/// Reads an effect, and whether nobody is told of it; what follows it is from a later version.
///
/// # Errors
///
/// [`EffectError`] when it is none, or one of another version.
pub fn effect<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<(Transition<'a>, bool), EffectError> {
    let effect = words.next().unwrap_or_default();
    Ok((Transition::from_effect(effect)?, is_quiet(effect)))
}
