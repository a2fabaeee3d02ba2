//! The functions of the module API, and their return codes.

/// A function of the module API that every supported server has.
macro_rules! api {
    ($name:ident) => {
        // A plain read of the pointer that the server filled in when the module was loaded.
        match redis_module::raw::$name {
            Some(function) => function,
            None => $crate::server::api::missing(stringify!($name)),
        }
    };
}
pub(super) use api;

/// The server's codes for success and failure.
#[allow(clippy::cast_possible_truncation)] // 0 and 1
pub(super) const OK: std::ffi::c_int = redis_module::raw::REDISMODULE_OK as std::ffi::c_int;
#[allow(clippy::cast_possible_truncation)]
pub(super) const REFUSED: std::ffi::c_int = redis_module::raw::REDISMODULE_ERR as std::ffi::c_int;

/// Ends the command with an error: the guard of each entry point catches the panic.
#[cold]
pub(super) fn missing(name: &str) -> ! {
    panic!("this server does not offer {name}")
}
