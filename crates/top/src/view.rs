//! The state of the screen, and how keys and updates change it. The view does not talk to servers, but returns orders.

use crate::order::{self, Action, Order, Update};
use crate::snapshot::{Found, Id, Snapshot, What};
use crate::table::{Panel, Row};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use redis_lock_tool::Waiter;

const PAGE: isize = 10;
const PANELS: usize = Panel::ALL.len();

/// The mode decides what a key does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Move in the tables.
    Tables,
    /// Type the filter.
    Filter,
    /// Show a lock with its waiters, or a program with its locks.
    Details(Details),
    /// Answer this question before an order, and return to the mode before it.
    Confirm(String, Order, Box<Mode>),
    /// Show the help.
    Help,
}

/// A lock with its queue, or a program with its locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Details {
    pub(crate) id: Id,
    /// `None` until the server has answered.
    pub(crate) found: Option<Found>,
    /// The client and owner of the chosen call, which stays chosen when it moves in the queue.
    chosen: Choice<(i64, Vec<u8>)>,
}

/// The subject of the chosen line of a list, so that the line stays chosen when it moves. Without a choice, the first
/// line counts as chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice<T>(Option<T>);

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
    chosen: [Choice<Id>; PANELS],
}

impl View {
    pub(crate) fn new() -> Self {
        Self {
            now: Snapshot::of(Vec::new()),
            before: None,
            panel: Panel::Held,
            filter: String::new(),
            mode: Mode::Tables,
            is_paused: false,
            message: None,
            is_over: false,
            chosen: [const { Choice(None) }; PANELS],
        }
    }

    pub(crate) fn rows(&self, panel: Panel) -> Vec<Row> {
        panel.rows(&self.now, &self.filter)
    }

    /// The index of the chosen row, or of the first row.
    pub(crate) fn chosen(&self, panel: Panel, rows: &[Row]) -> Option<usize> {
        self.chosen[panel as usize].position(&ids(rows))
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
            Update::Found(id, found) => {
                // Do not change the subject of a question while the question is shown.
                if let Mode::Details(details) = &mut self.mode
                    && details.id == id
                {
                    details.found = Some(found);
                }
                return None;
            }
            Update::Done(message) => self.message = Some(message),
        }
        // Refresh the popup.
        match &self.mode {
            Mode::Details(details) => Some(Order::look(&details.id)),
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
            Mode::Details(details) => {
                self.press_in_details(details, key.code);
                None
            }
            Mode::Confirm(_, order, back) => {
                self.mode = *back;
                // Any other key means no.
                (key.code == KeyCode::Char('y')).then_some(order)
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
            KeyCode::Char(digit @ '1'..='4') => {
                self.panel = Panel::ALL[digit as usize - '1' as usize];
            }
            KeyCode::Tab => self.panel = Panel::ALL[(self.panel as usize + 1) % PANELS],
            KeyCode::BackTab => {
                self.panel = Panel::ALL[(self.panel as usize + PANELS - 1) % PANELS];
            }
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Enter => {
                let id = self.chosen_row()?;
                let order = Order::look(&id);
                self.mode = Mode::Details(Details::of(id));
                return Some(order);
            }
            KeyCode::Char(letter @ ('u' | 'k')) => {
                let Id { server, what } = self.chosen_row()?;
                let asked = match (what, letter) {
                    (What::Lock(key), 'u') => {
                        order::unlock(&server, &key, self.now.held(&server, &key))
                    }
                    (What::Program(session), 'k') => {
                        order::end(&server, self.now.program(&server, session))
                    }
                    _ => return None,
                };
                self.ask(server, asked, Mode::Tables);
            }
            _ => {
                let ids = ids(&self.rows(self.panel));
                self.chosen[self.panel as usize].move_by(key, &ids);
            }
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

    fn press_in_details(&mut self, mut details: Details, key: KeyCode) {
        let server = &details.id.server;
        let asked = match (&details.id.what, key, &details.found) {
            (_, KeyCode::Esc | KeyCode::Char('q'), _) => return,
            (What::Program(session), KeyCode::Char('k'), _) => {
                order::end(server, self.now.program(server, *session))
            }
            (What::Lock(key), KeyCode::Char('k'), _) => {
                order::kill(server, key, details.chosen_waiter(), &self.now)
            }
            (What::Lock(key), KeyCode::Char('u'), Some(Found::Queue(held, _))) => {
                order::unlock(server, key, held.as_ref())
            }
            _ => {
                let calls = details.calls();
                details.chosen.move_by(key, &calls);
                self.mode = Mode::Details(details);
                return;
            }
        };
        self.ask(server.clone(), asked, Mode::Details(details));
    }

    /// Asks a question, or shows why there is nothing to ask. Afterwards the view returns to the mode `back`.
    fn ask(&mut self, server: String, asked: Result<(String, Action), String>, back: Mode) {
        match asked {
            Ok((question, action)) => {
                let order = Order { server, action };
                self.mode = Mode::Confirm(question, order, Box::new(back));
            }
            Err(why) => {
                self.message = Some(why);
                self.mode = back;
            }
        }
    }

    fn chosen_row(&self) -> Option<Id> {
        let rows = self.rows(self.panel);
        let chosen = self.chosen(self.panel, &rows)?;
        Some(rows[chosen].id.clone())
    }
}

impl Details {
    fn of(id: Id) -> Self {
        Self {
            id,
            found: None,
            chosen: Choice(None),
        }
    }

    fn waiters(&self) -> &[Waiter] {
        match &self.found {
            Some(Found::Queue(_, waiters)) => waiters,
            _ => &[],
        }
    }

    /// The client and owner of each call.
    fn calls(&self) -> Vec<(i64, Vec<u8>)> {
        let calls = self.waiters().iter();
        calls
            .map(|call| (call.client_id, call.owner.clone()))
            .collect()
    }

    /// The position of the chosen call, or of the first call.
    pub(crate) fn position(&self) -> Option<usize> {
        self.chosen.position(&self.calls())
    }

    fn chosen_waiter(&self) -> Option<&Waiter> {
        self.waiters().get(self.position()?)
    }
}

impl<T: Clone + PartialEq> Choice<T> {
    /// The position of the chosen line, or of the first line.
    fn position(&self, lines: &[T]) -> Option<usize> {
        let first = (!lines.is_empty()).then_some(0);
        let mut lines = lines.iter();
        lines
            .position(|line| Some(line) == self.0.as_ref())
            .or(first)
    }

    /// Chooses another line, if this key moves the choice.
    fn move_by(&mut self, key: KeyCode, lines: &[T]) {
        let step = match key {
            KeyCode::Down => 1,
            KeyCode::Up => -1,
            KeyCode::PageDown => PAGE,
            KeyCode::PageUp => -PAGE,
            KeyCode::Home => isize::MIN,
            KeyCode::End => isize::MAX,
            _ => return,
        };
        if let Some(position) = self.position(lines) {
            let next = position.saturating_add_signed(step);
            self.0 = lines.get(next.min(lines.len() - 1)).cloned();
        }
    }
}

fn ids(rows: &[Row]) -> Vec<Id> {
    rows.iter().map(|row| row.id.clone()).collect()
}
