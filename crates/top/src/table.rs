//! The tables: their columns and rows.

use crate::snapshot::{Claim, Hot, Id, Lock, Server, Snapshot, What};
use redis_lock_tool::{Program, Waiter, words};
use std::cmp::Reverse;

/// One of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Panel {
    /// Locks, held longest first.
    Held,
    /// Locks with waiters, most first.
    Queues,
    /// Keys with the most waiting over the last minutes.
    Hot,
    /// Programs with sessions, those with most locks first.
    Programs,
}

/// One column of a table.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// 0 for a name, which takes the remaining width.
    pub(crate) width: u16,
    /// The column is hidden on narrower screens.
    pub(crate) from: u16,
}

/// The name of the column that is shown only for a cluster.
pub(crate) const SERVER: &str = "server";

/// A column with its cell in one row.
pub(crate) type Field = (Column, Cell);

const fn field(name: &'static str, width: u16, from: u16, cell: Cell) -> Field {
    (Column { name, width, from }, cell)
}

/// A cell.
pub(crate) enum Cell {
    /// The name of a key or a server.
    Name(Vec<u8>),
    /// The owner of a holder or a waiter.
    Owner(Vec<u8>),
    Number(i64),
    /// Milliseconds; -1 means without end.
    Length(i64),
}

impl Cell {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Name(bytes) | Self::Owner(bytes) => words::name(bytes),
            Self::Number(number) => number.to_string(),
            Self::Length(ms) => words::length(*ms),
        }
    }

    /// The text of the cell in at most `width` columns.
    pub(crate) fn text_within(&self, width: usize) -> String {
        let text = self.text();
        match self {
            Self::Owner(_) => words::cut_owner(&text, width),
            _ => words::cut(&text, width),
        }
    }
}

/// One line of a table.
pub(crate) struct Row {
    pub(crate) id: Id,
    /// The number that the table is sorted by.
    rank: i64,
    pub(crate) fields: Vec<Field>,
}

impl Panel {
    pub(crate) const ALL: [Self; 4] = [Self::Held, Self::Queues, Self::Hot, Self::Programs];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Held => "Locks held longest",
            Self::Queues => "Longest queues",
            Self::Hot => "Hottest keys",
            Self::Programs => "Programs",
        }
    }

    pub(crate) fn columns(self) -> Vec<Column> {
        let mut fields = match self {
            Self::Held => held(&Lock::default()),
            Self::Queues => queue(&Lock::default()),
            Self::Hot => hot(&Hot::default()),
            Self::Programs => program(&Program::default()),
        };
        fields.push(server(""));
        fields.into_iter().map(|(column, _)| column).collect()
    }

    fn rows_of(self, server: &Server) -> Vec<Row> {
        let of_lock = |key: &[u8], rank, fields| {
            let what = What::Lock(key.to_vec());
            Row::new(server, what, rank, fields)
        };
        let locks = server.locks.iter();
        match self {
            Self::Held => locks
                .map(|lock| of_lock(&lock.key, lock.held.held_ms, held(lock)))
                .collect(),
            Self::Queues => locks
                .filter(|lock| lock.held.waiters > 0)
                .map(|lock| of_lock(&lock.key, lock.held.waiters, queue(lock)))
                .collect(),
            Self::Hot => {
                let hottest = server.hot.iter();
                let row = |one: &Hot| of_lock(&one.key, one.total_wait_ms, hot(one));
                hottest.map(row).collect()
            }
            Self::Programs => {
                let programs = server.programs.iter();
                let what = |one: &Program| What::Program(one.id);
                let row = |one| Row::new(server, what(one), one.grants, program(one));
                programs.map(row).collect()
            }
        }
    }

    /// The rows whose key or owner contains the filter, in the order that the title names. Rows with the same rank keep
    /// their order from snapshot to snapshot.
    pub(crate) fn rows(self, snapshot: &Snapshot, filter: &str) -> Vec<Row> {
        let servers = snapshot.servers.iter();
        let mut rows: Vec<_> = servers.flat_map(|server| self.rows_of(server)).collect();
        let filter = filter.to_lowercase();
        rows.retain(|row| {
            let cells = row.fields.iter().map(|(_, cell)| cell);
            let mut names = cells.filter(|cell| matches!(cell, Cell::Name(_) | Cell::Owner(_)));
            names.any(|cell| cell.text().to_lowercase().contains(&filter))
        });
        rows.sort_by(|one, two| (Reverse(one.rank), &one.id).cmp(&(Reverse(two.rank), &two.id)));
        rows
    }
}

impl Row {
    fn new(of: &Server, what: What, rank: i64, mut fields: Vec<Field>) -> Self {
        fields.push(server(&of.address));
        let server = of.address.clone();
        let id = Id { server, what };
        Self { id, rank, fields }
    }
}

fn server(address: &str) -> Field {
    field(SERVER, 21, 100, Cell::Name(address.into()))
}

fn held(lock: &Lock) -> Vec<Field> {
    let held = &lock.held;
    vec![
        field("key", 0, 0, Cell::Name(lock.key.clone())),
        field("owner", 0, 0, Cell::Owner(held.owner.clone())),
        field("held", 7, 0, Cell::Length(held.held_ms)),
        field("left", 7, 0, Cell::Length(held.ttl_ms)),
        field("lease", 7, 100, Cell::Length(held.lease_ms)),
        field("holds", 5, 90, Cell::Number(held.holds)),
        field("waiters", 7, 0, Cell::Number(held.waiters)),
        field("token", 16, 120, Cell::Number(held.token)),
    ]
}

fn queue(lock: &Lock) -> Vec<Field> {
    let first = lock.first.clone().unwrap_or_default();
    vec![
        field("key", 0, 0, Cell::Name(lock.key.clone())),
        field("waiters", 7, 0, Cell::Number(lock.held.waiters)),
        field("longest", 7, 0, Cell::Length(first.waited_ms)),
        field("first in line", 0, 0, Cell::Owner(first.owner)),
        field("owner", 0, 100, Cell::Owner(lock.held.owner.clone())),
        field("held", 7, 0, Cell::Length(lock.held.held_ms)),
    ]
}

fn hot(hot: &Hot) -> Vec<Field> {
    vec![
        field("key", 0, 0, Cell::Name(hot.key.clone())),
        field("waits", 7, 0, Cell::Number(hot.waits)),
        field("time-outs", 9, 0, Cell::Number(hot.timeouts)),
        field("expirations", 11, 0, Cell::Number(hot.expirations)),
        field("total wait", 10, 0, Cell::Length(hot.total_wait_ms)),
        field("longest", 7, 0, Cell::Length(hot.longest_wait_ms)),
    ]
}

fn program(program: &Program) -> Vec<Field> {
    vec![
        field("program", 0, 0, Cell::Name(program.name.clone())),
        field("state", 8, 0, Cell::Name(program.state().word().into())),
        field("holds", 6, 0, Cell::Number(program.grants)),
        field("waits", 6, 0, Cell::Number(program.waiting)),
        field("idle", 7, 0, Cell::Length(program.idle_ms)),
        field("age", 7, 90, Cell::Length(program.age_ms)),
        field("events", 6, 90, Cell::Number(program.events)),
        field("session", 16, 100, Cell::Number(program.id)),
    ]
}

/// A call in the queue of a lock, with its program and its client.
pub(crate) fn call(place: i64, waiter: &Waiter, program: String, client: String) -> Vec<Field> {
    vec![
        field("", 3, 0, Cell::Number(place)),
        field("waiting owner", 0, 0, Cell::Owner(waiter.owner.clone())),
        field("program", 0, 0, Cell::Name(program.into())),
        field("client", 7, 0, Cell::Name(client.into())),
        field("waited", 7, 0, Cell::Length(waiter.waited_ms)),
        field("gives up", 8, 0, Cell::Length(waiter.left_ms)),
    ]
}

/// A lock that a program holds or waits for.
pub(crate) fn claim(place: i64, claim: &Claim) -> Vec<Field> {
    let state = claim.waited_ms.map_or("holds", |_| "waits");
    let waited = claim.waited_ms.map_or_else(String::new, words::length);
    vec![
        field("", 3, 0, Cell::Number(place)),
        field("", 5, 0, Cell::Name(state.into())),
        field("lock", 0, 0, Cell::Name(claim.key.clone())),
        field("owner", 0, 0, Cell::Owner(claim.owner.clone())),
        field("waited", 7, 0, Cell::Name(waited.into())),
        field("left", 7, 0, Cell::Length(claim.left_ms)),
    ]
}
