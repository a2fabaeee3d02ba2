//! ACL categories.

use std::ffi::CStr;

use redis_module::raw;

use super::{Context, OK};

/// An ACL category that the module has added.
pub(crate) struct AclCategory(pub(super) &'static CStr);

/// Adds an ACL category, before any command is registered in it; none where the server does not
/// let a module have its own (Redis before 7.4).
pub(crate) fn add_category(context: Context<'_>, name: &'static CStr) -> Option<AclCategory> {
    // SAFETY: the context is live, and the server copies the name.
    let added = unsafe { raw::RedisModule_AddACLCategory?(context.raw, name.as_ptr()) };
    (added == OK).then_some(AclCategory(name))
}
