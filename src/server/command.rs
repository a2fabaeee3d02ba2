//! Describes, registers and runs commands.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use redis_module::raw;

use super::api::{OK, api};
use super::context::warn;
use super::guard::guard;
use super::{AclCategory, Context, Text};

/// A command of the module.
pub(crate) trait Command {
    /// The description for the server and `COMMAND DOCS`.
    const SPEC: Spec;

    /// Answers one call. `arguments` starts with the command's name and has the arity of the spec.
    fn run<'call>(context: Context<'call>, arguments: &'call [Text<'call>]);
}

/// The description of a command.
pub(crate) struct Spec {
    /// The name; for a subcommand `container|name`.
    pub(crate) name: &'static CStr,
    pub(crate) flags: &'static CStr,
    /// The server's own ACL categories, on servers where a module can name them.
    pub(crate) categories: &'static CStr,
    /// The number of arguments including the name. If it varies, the negated minimum.
    pub(crate) arity: c_int,
    pub(crate) summary: &'static CStr,
    pub(crate) complexity: &'static CStr,
    pub(crate) since: &'static CStr,
    /// The later versions that changed the command, each with its change.
    pub(crate) history: &'static [(&'static CStr, &'static CStr)],
    /// How the command uses its key, if it has one.
    pub(crate) key: Option<KeyUse>,
    /// The arguments after the key.
    pub(crate) arguments: fn() -> Vec<Argument>,
}

/// How a command uses its key, which is its first argument, except for `ReadUnnamed`.
#[derive(Clone, Copy)]
pub(crate) enum KeyUse {
    /// Reads the value and returns data from it.
    Read,
    /// Reads and writes the value and returns data from it.
    Update,
    /// Overwrites the key.
    Overwrite,
    /// Reads the value, returns data from it and may delete the key.
    Delete,
    /// Returns data from keys that are not arguments. A caller may see a key if it may run the command with this
    /// keyword and the key. The keyword exists only for that check.
    ReadUnnamed(&'static CStr),
}

impl KeyUse {
    /// Returns true if the first argument is the key.
    const fn is_first(self) -> bool {
        !matches!(self, Self::ReadUnnamed(_))
    }
}

/// One argument of a command, or a group of them.
pub(crate) struct Argument {
    pub(crate) name: &'static CStr,
    pub(crate) kind: ArgKind,
    /// The keyword before the argument.
    pub(crate) keyword: Option<&'static CStr>,
    pub(crate) optional: bool,
    /// The version that added the argument, if that is later than the command.
    pub(crate) since: Option<&'static CStr>,
}

/// The kind of an argument.
pub(crate) enum ArgKind {
    /// The key.
    Key,
    /// Any bytes.
    String,
    /// An integer.
    Integer,
    /// A keyword without a value.
    Flag,
    /// One of these arguments.
    OneOf(Vec<Argument>),
}

const KEY: Argument = Argument {
    name: c"key",
    kind: ArgKind::Key,
    keyword: None,
    optional: false,
    since: None,
};

/// Registers a command while the module is being loaded, and adds it to the module's ACL category if there is one. The
/// container of a subcommand must be registered first. Returns false if the server refuses.
pub(crate) fn register<C: Command>(context: Context<'_>, category: Option<&AclCategory>) -> bool {
    create(context, &C::SPEC, Some(call::<C>), category)
}

/// Registers a command that only contains subcommands.
pub(crate) fn register_container(
    context: Context<'_>,
    spec: &Spec,
    category: Option<&AclCategory>,
) -> bool {
    create(context, spec, None, category)
}

fn create(
    context: Context<'_>,
    spec: &Spec,
    function: raw::RedisModuleCmdFunc,
    category: Option<&AclCategory>,
) -> bool {
    let key_position = c_int::from(spec.key.is_some_and(KeyUse::is_first));
    let flags = spec.flags.as_ptr();
    // SAFETY: the context is live; the server copies what it keeps, but for the callback, which
    // stays for as long as the library is loaded.
    unsafe {
        let created = match parts(spec.name) {
            None => api!(RedisModule_CreateCommand)(
                context.raw,
                spec.name.as_ptr(),
                function,
                flags,
                key_position,
                key_position,
                key_position,
            ),
            Some((container, name)) => {
                let container = api!(RedisModule_GetCommand)(context.raw, container.as_ptr());
                if container.is_null() {
                    return false;
                }
                api!(RedisModule_CreateSubcommand)(
                    container,
                    name.as_ptr(),
                    function,
                    flags,
                    key_position,
                    key_position,
                    key_position,
                )
            }
        };
        if created != OK {
            return false;
        }
        let command = api!(RedisModule_GetCommand)(context.raw, spec.name.as_ptr());
        !command.is_null() && describe(command, spec) && categorise(command, spec, category)
    }
}

/// The names of a subcommand's container and of the subcommand itself.
fn parts(name: &'static CStr) -> Option<(CString, &'static CStr)> {
    let bytes = name.to_bytes_with_nul();
    let bar = bytes.iter().position(|byte| *byte == b'|')?;
    let container = CString::new(&bytes[..bar]).ok()?;
    let name = CStr::from_bytes_with_nul(&bytes[bar + 1..]).ok()?;
    Some((container, name))
}

/// # Safety
///
/// `command` is the server's, of a module that is being loaded.
unsafe fn categorise(
    command: *mut raw::RedisModuleCommand,
    spec: &Spec,
    own: Option<&AclCategory>,
) -> bool {
    let mut categories = spec.categories.to_bytes().to_vec();
    if let Some(AclCategory(own)) = own {
        categories.push(b' ');
        categories.extend_from_slice(own.to_bytes());
    }
    let categories = CString::new(categories).unwrap_or_default();
    // SAFETY: by the caller's promise; Redis 7.0 lacks the function.
    unsafe {
        match raw::RedisModule_SetCommandACLCategories {
            Some(set) => set(command, categories.as_ptr()) == OK,
            None => true,
        }
    }
}

/// # Safety
///
/// `command` is the server's, of a module that is being loaded.
unsafe fn describe(command: *mut raw::RedisModuleCommand, spec: &Spec) -> bool {
    let mut groups = Vec::new();
    let mut arguments = (spec.arguments)();
    let mut key_specs = Vec::new();
    if let Some(key) = spec.key {
        if key.is_first() {
            arguments.insert(0, KEY);
        }
        key_specs.push(key_spec(key));
    }
    let arguments = argument_list(&arguments, &mut groups);
    // SAFETY: all-zero bytes are the element that ends a list, and an unset field.
    key_specs.push(unsafe { std::mem::zeroed() });
    let mut history: Vec<_> = spec.history.iter().map(history_entry).collect();
    if !history.is_empty() {
        // SAFETY: as above.
        history.push(unsafe { std::mem::zeroed() });
    }
    let mut version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let info = raw::RedisModuleCommandInfo {
        version: &raw mut version,
        summary: spec.summary.as_ptr(),
        complexity: spec.complexity.as_ptr(),
        since: spec.since.as_ptr(),
        history: if history.is_empty() {
            ptr::null_mut()
        } else {
            history.as_mut_ptr()
        },
        tips: ptr::null(),
        arity: spec.arity,
        key_specs: key_specs.as_mut_ptr(),
        args: arguments,
    };
    // SAFETY: every list ends with a zeroed element and lives until the call returns; the server
    // copies all of it.
    unsafe { api!(RedisModule_SetCommandInfo)(command, &raw const info) == OK }
}

fn history_entry(
    (since, changes): &(&'static CStr, &'static CStr),
) -> raw::RedisModuleCommandHistoryEntry {
    raw::RedisModuleCommandHistoryEntry {
        since: since.as_ptr(),
        changes: changes.as_ptr(),
    }
}

fn key_spec(key: KeyUse) -> raw::RedisModuleCommandKeySpec {
    let flags = match key {
        KeyUse::Read | KeyUse::ReadUnnamed(_) => {
            raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS
        }
        KeyUse::Update => {
            raw::REDISMODULE_CMD_KEY_RW
                | raw::REDISMODULE_CMD_KEY_ACCESS
                | raw::REDISMODULE_CMD_KEY_UPDATE
        }
        KeyUse::Overwrite => raw::REDISMODULE_CMD_KEY_OW | raw::REDISMODULE_CMD_KEY_UPDATE,
        KeyUse::Delete => {
            raw::REDISMODULE_CMD_KEY_RW
                | raw::REDISMODULE_CMD_KEY_ACCESS
                | raw::REDISMODULE_CMD_KEY_DELETE
        }
    };
    let (begin_search_type, bs) = match key {
        KeyUse::ReadUnnamed(keyword) => (
            raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD,
            raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
                keyword: raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_2 {
                    keyword: keyword.as_ptr(),
                    startfrom: 1,
                },
            },
        ),
        _ => (
            raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX,
            raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
                index: raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_1 { pos: 1 },
            },
        ),
    };
    raw::RedisModuleCommandKeySpec {
        notes: ptr::null(),
        flags: u64::from(flags),
        begin_search_type,
        bs,
        find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE,
        fk: raw::RedisModuleCommandKeySpec__bindgen_ty_2 {
            range: raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 {
                lastkey: 0,
                keystep: 1,
                limit: 0,
            },
        },
    }
}

/// Builds the server's list of `arguments`. `groups` keeps all lists alive.
fn argument_list(
    arguments: &[Argument],
    groups: &mut Vec<Vec<raw::RedisModuleCommandArg>>,
) -> *mut raw::RedisModuleCommandArg {
    let mut list: Vec<_> = arguments
        .iter()
        .map(|argument| raw_argument(argument, groups))
        .collect();
    // SAFETY: all-zero bytes are the element that ends a list.
    list.push(unsafe { std::mem::zeroed() });
    let start = list.as_mut_ptr();
    groups.push(list);
    start
}

fn raw_argument(
    argument: &Argument,
    groups: &mut Vec<Vec<raw::RedisModuleCommandArg>>,
) -> raw::RedisModuleCommandArg {
    use raw::{
        RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER as INTEGER,
        RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY as KEY,
        RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF as ONEOF,
        RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN as PURE_TOKEN,
        RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING as STRING,
    };
    const NO_KEY: c_int = -1;
    let (type_, group) = match &argument.kind {
        ArgKind::Key => (KEY, None),
        ArgKind::String => (STRING, None),
        ArgKind::Integer => (INTEGER, None),
        ArgKind::Flag => (PURE_TOKEN, None),
        ArgKind::OneOf(group) => (ONEOF, Some(group)),
    };
    let flags = if argument.optional {
        raw::REDISMODULE_CMD_ARG_OPTIONAL
    } else {
        raw::REDISMODULE_CMD_ARG_NONE
    };
    raw::RedisModuleCommandArg {
        name: argument.name.as_ptr(),
        type_,
        key_spec_index: if type_ == KEY { 0 } else { NO_KEY },
        token: argument.keyword.map_or(ptr::null(), CStr::as_ptr),
        summary: ptr::null(),
        since: argument.since.map_or(ptr::null(), CStr::as_ptr),
        flags: flags.cast_signed(),
        deprecated_since: ptr::null(),
        subargs: group.map_or(ptr::null_mut(), |group| argument_list(group, groups)),
        display_text: ptr::null::<c_char>(),
    }
}

unsafe extern "C" fn call<C: Command>(
    raw: *mut raw::RedisModuleCtx,
    arguments: *mut *mut raw::RedisModuleString,
    count: c_int,
) -> c_int {
    let body = || {
        // SAFETY: the server's arguments of this call, which they outlive.
        let (context, arguments) =
            unsafe { (Context::with_flags(raw), Text::arguments(arguments, count)) };
        C::run(context, arguments);
        OK
    };
    guard(OK, body, |text| {
        let name = C::SPEC.name.to_string_lossy();
        warn(&format!("a fault inside {name} was caught: {text}"));
        let error = format!("ERR a fault inside the module was caught: {text}");
        // SAFETY: as above.
        let context = unsafe { Context::new(raw) };
        context.reply_error(&CString::new(error).unwrap_or_default());
    })
}
