//! The state of the screen, and how keys and updates change it. It neither draws nor talks to a server: it
//! returns orders.

use crate::snapshot::{Claim, Held, LockId, ProgramId, Snapshot};
use crate::source::{Order, Update};
use crate::table::{Panel, Row, RowId, Sort};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use redis_lock_tool::{Program, Waiter, words};

const PAGE: isize = 10;
const PANELS: usize = Panel::ALL.len();
/// The width of an owner in a message.
const MAX_OWNER: usize = 40;

/// The effect of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Move in the tables.
    Tables,
    /// Type the filter.
    Filter,
    /// Show a lock and its waiters.
    Queue(Queue),
    /// Show a program, what it holds and what it waits for.
    Claims(Claims),
    /// Answer a question, and return to the mode before it.
    Confirm(Question, Box<Mode>),
    /// Show the help.
    Help,
}

/// A lock with its waiters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) lock_id: LockId,
    /// `None`: free, or not known yet.
    pub(crate) held: Option<Held>,
    pub(crate) waiters: Vec<Waiter>,
    /// True when the server has answered.
    pub(crate) is_known: bool,
    /// The chosen call, by its client and its owner. It stays chosen when it moves in the queue.
    pub(crate) chosen: Option<(i64, Vec<u8>)>,
}

/// A program with what it holds and waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) id: ProgramId,
    /// None: not known yet, or it has ended.
    pub(crate) claims: Option<Vec<Claim>>,
}

/// An action that needs a confirmation, with what was on the screen when it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    Kill(LockId, Waiter),
    Unlock(LockId, Held),
    End(ProgramId, Program),
}

impl Question {
    fn order(self) -> Order {
        match self {
            Self::Kill(lock_id, waiter) => Order::Kill {
                lock_id,
                client_id: waiter.client_id,
            },
            Self::Unlock(lock_id, held) => Order::Unlock {
                lock_id,
                token: held.token,
            },
            Self::End(id, _) => Order::End(id),
        }
    }
}

/// The state of the screen.
pub(crate) struct View {
    pub(crate) now: Snapshot,
    pub(crate) before: Option<Snapshot>,
    pub(crate) panel: Panel,
    pub(crate) filter: String,
    pub(crate) mode: Mode,
    pub(crate) is_paused: bool,
    /// The result of the last order.
    pub(crate) message: Option<String>,
    pub(crate) is_over: bool,
    sorts: [Sort; PANELS],
    chosen: [Option<RowId>; PANELS],
}

impl View {
    pub(crate) fn new() -> Self {
        Self {
            now: Snapshot::empty(),
            before: None,
            panel: Panel::Held,
            filter: String::new(),
            mode: Mode::Tables,
            is_paused: false,
            message: None,
            is_over: false,
            sorts: Panel::ALL.map(Panel::first_sort),
            chosen: [const { None }; PANELS],
        }
    }

    pub(crate) fn sort(&self, panel: Panel) -> Sort {
        self.sorts[panel as usize]
    }

    pub(crate) fn rows(&self, panel: Panel) -> Vec<Row> {
        panel.rows(&self.now, self.sort(panel), &self.filter)
    }

    /// The index of the chosen row, else the first row.
    pub(crate) fn chosen(&self, panel: Panel, rows: &[Row]) -> Option<usize> {
        let chosen = self.chosen[panel as usize].as_ref();
        let same = rows.iter().position(|row| Some(&row.id) == chosen);
        same.or((!rows.is_empty()).then_some(0))
    }

    /// The increase of a counter per second between the last two snapshots.
    pub(crate) fn rate(&self, field: &str) -> Option<f64> {
        self.now.rate(field, self.before.as_ref()?)
    }

    /// Applies an update.
    pub(crate) fn apply(&mut self, update: Update) -> Option<Order> {
        match update {
            Update::Snapshot(_) if self.is_paused => return None,
            Update::Snapshot(snapshot) => {
                let before = std::mem::replace(&mut self.now, snapshot);
                self.before = (!before.servers.is_empty()).then_some(before);
            }
            Update::Queue(lock_id, held, waiters) => {
                // The subject of a question does not change while it is shown.
                let Mode::Queue(queue) = &mut self.mode else {
                    return None;
                };
                if queue.lock_id == lock_id {
                    queue.held = held;
                    queue.waiters = waiters;
                    queue.is_known = true;
                }
                return None;
            }
            Update::Claims(id, claims) => {
                if let Mode::Claims(shown) = &mut self.mode
                    && shown.id == id
                {
                    shown.claims = claims;
                }
                return None;
            }
            Update::Done(message) => self.message = Some(message),
        }
        // Refresh what is shown in front.
        match &self.mode {
            Mode::Queue(queue) => Some(Order::Look(queue.lock_id.clone())),
            Mode::Claims(claims) => Some(Order::LookAtProgram(claims.id.clone())),
            _ => None,
        }
    }

    /// Handles a key press.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Option<Order> {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            self.is_over = true;
            return None;
        }
        self.message = None;
        match std::mem::replace(&mut self.mode, Mode::Tables) {
            Mode::Tables => self.press_in_tables(key.code),
            Mode::Filter => self.press_in_filter(key.code),
            Mode::Queue(queue) => self.press_in_queue(queue, key.code),
            Mode::Claims(claims) => {
                match key.code {
                    KeyCode::Esc | KeyCode::Char('q') => {}
                    KeyCode::Char('k') => self.ask_to_end(claims.id.clone(), Mode::Claims(claims)),
                    _ => self.mode = Mode::Claims(claims),
                }
                None
            }
            Mode::Confirm(question, back) => {
                self.mode = *back;
                // Any other key is a no.
                (key.code == KeyCode::Char('y')).then(|| question.order())
            }
            Mode::Help => None,
        }
    }

    fn press_in_tables(&mut self, key: KeyCode) -> Option<Order> {
        match key {
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => self.sort_by_next(),
            KeyCode::Char('r') => {
                let sort = &mut self.sorts[self.panel as usize];
                sort.descending = !sort.descending;
            }
            KeyCode::Char(digit @ '1'..='4') => {
                self.panel = Panel::ALL[digit as usize - '1' as usize];
            }
            KeyCode::Tab => self.panel = Panel::ALL[(self.panel as usize + 1) % PANELS],
            KeyCode::BackTab => {
                self.panel = Panel::ALL[(self.panel as usize + PANELS - 1) % PANELS];
            }
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Enter => return self.look_at_chosen(),
            KeyCode::Char('u') => self.ask_to_unlock_chosen(),
            KeyCode::Char('k') => {
                if let Some(RowId::Program(id)) = self.chosen_row() {
                    self.ask_to_end(id, Mode::Tables);
                }
            }
            _ => self.choose(step(key)?),
        }
        None
    }

    fn press_in_filter(&mut self, key: KeyCode) -> Option<Order> {
        match key {
            KeyCode::Enter => return None,
            KeyCode::Esc => {
                self.filter.clear();
                return None;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.mode = Mode::Filter;
        None
    }

    fn press_in_queue(&mut self, mut queue: Queue, key: KeyCode) -> Option<Order> {
        match key {
            KeyCode::Esc | KeyCode::Char('q') => return None,
            KeyCode::Char('k') => {
                if let Some(waiter) = queue.chosen_waiter() {
                    if self.now.is_queued(&queue.lock_id.server, waiter) {
                        let owner = words::cut_owner(&words::name(&waiter.owner), MAX_OWNER);
                        self.message = Some(format!(
                            "a queued call has no connection: LOCK.RELEASE … {owner} ALL cancels it"
                        ));
                        self.mode = Mode::Queue(queue);
                        return None;
                    }
                    let question = Question::Kill(queue.lock_id.clone(), waiter.clone());
                    self.mode = Mode::Confirm(question, Box::new(Mode::Queue(queue)));
                    return None;
                }
            }
            KeyCode::Char('u') => {
                if let Some(held) = queue.held.clone() {
                    let question = Question::Unlock(queue.lock_id.clone(), held);
                    self.mode = Mode::Confirm(question, Box::new(Mode::Queue(queue)));
                    return None;
                }
            }
            _ => {
                if let Some(step) = step(key) {
                    queue.choose(step);
                }
            }
        }
        self.mode = Mode::Queue(queue);
        None
    }

    /// Sorts by the next column, largest first.
    fn sort_by_next(&mut self) {
        let columns = self.panel.columns();
        let sort = &mut self.sorts[self.panel as usize];
        sort.column = (sort.column + 1) % columns.len();
        // Names from A.
        sort.descending = columns[sort.column].width != 0;
    }

    fn choose(&mut self, step: isize) {
        let rows = self.rows(self.panel);
        if let Some(chosen) = self.chosen(self.panel, &rows) {
            let chosen = moved(chosen, step, rows.len());
            self.chosen[self.panel as usize] = Some(rows[chosen].id.clone());
        }
    }

    fn chosen_row(&self) -> Option<RowId> {
        let rows = self.rows(self.panel);
        let chosen = self.chosen(self.panel, &rows)?;
        Some(rows[chosen].id.clone())
    }

    fn look_at_chosen(&mut self) -> Option<Order> {
        Some(match self.chosen_row()? {
            RowId::Lock(lock_id) => {
                self.mode = Mode::Queue(Queue {
                    lock_id: lock_id.clone(),
                    ..Queue::default()
                });
                Order::Look(lock_id)
            }
            RowId::Program(id) => {
                self.mode = Mode::Claims(Claims {
                    id: id.clone(),
                    claims: None,
                });
                Order::LookAtProgram(id)
            }
        })
    }

    /// Asks whether a program's session shall end, and returns to the mode before the question.
    fn ask_to_end(&mut self, id: ProgramId, back: Mode) {
        if let Some(program) = self.now.program(&id.server, id.session).cloned() {
            self.mode = Mode::Confirm(Question::End(id, program), Box::new(back));
        } else {
            self.message = Some("that program has ended".to_owned());
            self.mode = back;
        }
    }

    fn ask_to_unlock_chosen(&mut self) {
        let Some(RowId::Lock(lock_id)) = self.chosen_row() else {
            return;
        };
        let lock = self.now.locks.iter().find(|lock| lock.id == lock_id);
        match lock {
            Some(lock) => {
                let question = Question::Unlock(lock_id, lock.held.clone());
                self.mode = Mode::Confirm(question, Box::new(Mode::Tables));
            }
            None => self.message = Some("that lock is free".to_owned()),
        }
    }
}

impl Queue {
    /// The position of the chosen call, else the first.
    pub(crate) fn position(&self) -> Option<usize> {
        let mut waiters = self.waiters.iter();
        let chosen = self.chosen.as_ref();
        let same = waiters.position(|waiter| {
            chosen.is_some_and(|(client, owner)| {
                *client == waiter.client_id && *owner == waiter.owner
            })
        });
        same.or((!self.waiters.is_empty()).then_some(0))
    }

    fn chosen_waiter(&self) -> Option<&Waiter> {
        self.waiters.get(self.position()?)
    }

    fn choose(&mut self, step: isize) {
        if let Some(position) = self.position() {
            let position = moved(position, step, self.waiters.len());
            let waiter = &self.waiters[position];
            self.chosen = Some((waiter.client_id, waiter.owner.clone()));
        }
    }
}

fn step(key: KeyCode) -> Option<isize> {
    match key {
        KeyCode::Down => Some(1),
        KeyCode::Up => Some(-1),
        KeyCode::PageDown => Some(PAGE),
        KeyCode::PageUp => Some(-PAGE),
        KeyCode::Home => Some(isize::MIN),
        KeyCode::End => Some(isize::MAX),
        _ => None,
    }
}

fn moved(from: usize, step: isize, count: usize) -> usize {
    from.saturating_add_signed(step)
        .min(count.saturating_sub(1))
}
