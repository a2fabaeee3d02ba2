//! A safe interface to the server's module API. It contains all `unsafe` code of this crate and knows nothing about
//! locks.
//!
//! * A [`Context`], a [`Key`] and an argument live no longer than the call that they belong to.
//! * A panic never leaves an entry point. It is logged, and a command replies with an error ([`guard`]).
//! * A function that an older server lacks is looked up before it is used.

mod acl;
#[cfg(not(feature = "system-allocator"))]
mod allocator;
mod api;
mod blocked;
mod call;
mod caller;
mod client;
mod cluster;
pub(crate) mod cluster_nodes;
mod command;
mod config;
mod context;
mod data_type;
mod detached;
mod events;
mod gil;
mod guard;
mod info;
mod key;
mod listening;
mod load;
mod lost;
mod memory_limit;
mod monotonic;
mod optional;
mod other_modules;
mod removal;
mod server_info;
mod stream;
mod timer;
mod value;

pub(crate) use acl::{AclCategory, Rights, User, add_category as add_acl_category};
#[cfg(not(feature = "system-allocator"))]
pub(crate) use allocator::ServerAllocator;
pub(crate) use blocked::{Blocked, BlockedCallbacks};
pub(crate) use call::{OwnedText, Permission, WriteCheck, can_dry_run};
pub(crate) use client::Socket;
pub(crate) use cluster::Ports;
pub(crate) use command::{
    ArgKind, Argument, Command, KeyUse, Spec, register as register_command, register_container,
};
pub(crate) use config::{
    NumericSetting, SwitchSetting, load_settings, register as register_setting, register_switch,
};
pub(crate) use context::{Context, Text, log_verbose, warn};
pub(crate) use data_type::{
    AofWriter, DataType, Digest, RdbReader, RdbWriter, TypeHandle, register as register_type,
};
pub(crate) use events::{Databases, ServerEvent, on_databases, subscribe, unsubscribe};
pub(crate) use gil::GilCell;
pub(crate) use info::{InfoWriter, register as register_info};
pub(crate) use key::{Content, Key};
pub(crate) use listening::Listening;
pub(crate) use load::{export_load, load, set_module_options};
pub(crate) use lost::Lost;
pub(crate) use memory_limit::MemoryLimit;
pub(crate) use monotonic::monotonic_micros;
pub(crate) use removal::{Removal, follow_removals, last_removal};
pub(crate) use stream::watch as watch_stream;
pub(crate) use timer::{Timer, call_later};
pub(crate) use value::{
    Large, Value, ValueRef, count_flushes, entries_alive, entries_flushed, values_alive,
};
