//! `effect` of `LOCK._APPLY`

use super::syntax::{Argument, Kind};
use super::words::Words;
use crate::EffectError;
use crate::sharing::Transition;

/// The words of an effect.
pub const EFFECT: &[Argument] = &[Argument::new(c"effect", Kind::String)];

/// Reads an effect; what follows it is from a later version.
///
/// # Errors
///
/// [`EffectError`] when it is none, or one of another version.
pub fn effect<'a>(
    words: &mut Words<impl Iterator<Item = &'a [u8]>>,
) -> Result<Transition<'a>, EffectError> {
    Transition::from_effect(words.next().unwrap_or_default())
}
