//! A planned switch of the primary, by the commands of docs/operations/switching.md as they stand there, while
//! clients take, renew and give back locks: no lock is granted twice, and no grant is lost.

mod cluster;
mod document;
mod ledger;
mod load;
mod plain;
mod sentinel;
