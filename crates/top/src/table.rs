//! The tables: columns, rows and sorting.

use crate::snapshot::{Hot, Lock, LockId, ProgramId, Snapshot};
use redis_lock_tool::{Program, words};
use std::cmp::Ordering;

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
}

/// One column of a table.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// 0 for a name, which takes the remaining width.
    pub(crate) width: u16,
    /// The column is left out on narrower screens.
    pub(crate) from: u16,
}

/// The name of the column that is shown only for a cluster.
pub(crate) const SERVER: &str = "server";

const fn column(name: &'static str, width: u16, from: u16) -> Column {
    Column { name, width, from }
}

/// A cell; rows are sorted by its value, not by its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    /// A key, or a server.
    Name(Vec<u8>),
    /// Who holds, or waits.
    Owner(Vec<u8>),
    Number(i64),
    /// Milliseconds.
    Length(i64),
    /// The rest of a lease; -1 for ever, which is more than any other.
    Left(i64),
}

impl Cell {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Name(bytes) | Self::Owner(bytes) => words::name(bytes),
            Self::Number(number) => number.to_string(),
            Self::Length(ms) | Self::Left(ms) => words::length(*ms),
        }
    }

    /// Its text in at most so many columns.
    pub(crate) fn text_within(&self, width: usize) -> String {
        let text = self.text();
        match self {
            Self::Owner(_) => words::cut_owner(&text, width),
            _ => words::cut(&text, width),
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            // -1 becomes the largest.
            (Self::Left(one), Self::Left(two)) => one.cast_unsigned().cmp(&two.cast_unsigned()),
            _ => self.cmp(other),
        }
    }
}

/// What a line of a table is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowId {
    Lock(LockId),
    Program(ProgramId),
}

/// One line of a table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: RowId,
    pub(crate) cells: Vec<Cell>,
}

/// The sorting of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sort {
    pub(crate) column: usize,
    pub(crate) descending: bool,
}

impl Panel {
    pub(crate) fn columns(self) -> &'static [Column] {
        const HELD: [Column; 9] = [
            column("key", 0, 0),
            column("owner", 0, 0),
            column("held", 7, 0),
            column("left", 7, 0),
            column("lease", 7, 100),
            column("holds", 5, 90),
            column("waiters", 7, 0),
            column("token", 16, 120),
            column(SERVER, 21, 100),
        ];
        const QUEUES: [Column; 7] = [
            column("key", 0, 0),
            column("waiters", 7, 0),
            column("longest", 7, 0),
            column("first in line", 0, 0),
            column("owner", 0, 100),
            column("held", 7, 0),
            column(SERVER, 21, 100),
        ];
        const HOT: [Column; 7] = [
            column("key", 0, 0),
            column("waits", 7, 0),
            column("time-outs", 9, 0),
            column("expirations", 11, 0),
            column("total wait", 10, 0),
            column("longest", 7, 0),
            column(SERVER, 21, 100),
        ];
        const PROGRAMS: [Column; 9] = [
            column("program", 0, 0),
            column("state", 8, 0),
            column("holds", 6, 0),
            column("waits", 6, 0),
            column("idle", 7, 0),
            column("age", 7, 90),
            column("events", 6, 90),
            column("session", 16, 100),
            column(SERVER, 21, 100),
        ];
        match self {
            Self::Held => &HELD,
            Self::Queues => &QUEUES,
            Self::Hot => &HOT,
            Self::Programs => &PROGRAMS,
        }
    }

    /// The sorting that the title names.
    pub(crate) fn first_sort(self) -> Sort {
        let column = match self {
            Self::Held | Self::Programs => 2,
            Self::Queues => 1,
            Self::Hot => 4,
        };
        Sort {
            column,
            descending: true,
        }
    }

    /// The rows whose key or owner contains the filter, sorted.
    pub(crate) fn rows(self, snapshot: &Snapshot, sort: Sort, filter: &str) -> Vec<Row> {
        let mut rows: Vec<_> = match self {
            Self::Held => snapshot.locks.iter().map(held).collect(),
            Self::Queues => snapshot
                .locks
                .iter()
                .filter(|lock| lock.held.waiters > 0)
                .map(queue)
                .collect(),
            Self::Hot => snapshot.hot.iter().map(hot).collect(),
            Self::Programs => snapshot.programs.iter().map(program).collect(),
        };
        let filter = filter.to_lowercase();
        rows.retain(|row| {
            let mut names = row
                .cells
                .iter()
                .filter(|cell| matches!(cell, Cell::Name(_) | Cell::Owner(_)));
            names.any(|cell| cell.text().to_lowercase().contains(&filter))
        });
        rows.sort_by(|one, two| {
            let (a, b) = (&one.cells[sort.column], &two.cells[sort.column]);
            let order = if sort.descending {
                b.order(a)
            } else {
                a.order(b)
            };
            // Equal rows keep their order from snapshot to snapshot.
            order.then_with(|| one.id.cmp(&two.id))
        });
        rows
    }
}

fn held(lock: &Lock) -> Row {
    let held = &lock.held;
    Row {
        id: RowId::Lock(lock.id.clone()),
        cells: vec![
            Cell::Name(lock.id.key.clone()),
            Cell::Owner(held.owner.clone()),
            Cell::Length(held.held_ms),
            Cell::Left(held.ttl_ms),
            Cell::Length(held.lease_ms),
            Cell::Number(held.holds),
            Cell::Number(held.waiters),
            Cell::Number(held.token),
            server(&lock.id.server),
        ],
    }
}

fn queue(lock: &Lock) -> Row {
    let first = lock.first.clone().unwrap_or_default();
    Row {
        id: RowId::Lock(lock.id.clone()),
        cells: vec![
            Cell::Name(lock.id.key.clone()),
            Cell::Number(lock.held.waiters),
            Cell::Length(first.waited_ms),
            Cell::Owner(first.owner),
            Cell::Owner(lock.held.owner.clone()),
            Cell::Length(lock.held.held_ms),
            server(&lock.id.server),
        ],
    }
}

fn hot((lock_id, hot): &(LockId, Hot)) -> Row {
    Row {
        id: RowId::Lock(lock_id.clone()),
        cells: vec![
            Cell::Name(hot.key.clone()),
            Cell::Number(hot.waits),
            Cell::Number(hot.timeouts),
            Cell::Number(hot.expirations),
            Cell::Length(hot.total_wait_ms),
            Cell::Length(hot.max_wait_ms),
            server(&lock_id.server),
        ],
    }
}

fn program((id, program): &(ProgramId, Program)) -> Row {
    Row {
        id: RowId::Program(id.clone()),
        cells: vec![
            Cell::Name(program.name.clone()),
            Cell::Name(program.state().word().into()),
            Cell::Number(program.grants),
            Cell::Number(program.waiting),
            Cell::Length(program.idle_ms),
            Cell::Length(program.age_ms),
            Cell::Number(program.events),
            Cell::Number(program.id),
            server(&id.server),
        ],
    }
}

fn server(address: &str) -> Cell {
    Cell::Name(address.into())
}
