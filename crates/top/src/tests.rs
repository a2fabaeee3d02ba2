//! Tests of the view, on handmade snapshots and with real servers.

mod hand_made;
mod programs;
mod servers;
mod view;

use crate::draw::draw;
use crate::order::{Action, Order, Update};
use crate::snapshot::{Snapshot, What};
use crate::source::Source;
use crate::table::Panel;
use crate::view::View;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A screen, which may have servers that carry out its orders.
struct Screen {
    view: View,
    source: Option<Source>,
    size: (u16, u16),
    /// The order of the last key, if there are no servers to carry it out.
    order: Option<Order>,
}

impl Screen {
    /// A screen of a handmade snapshot.
    fn of(snapshot: Snapshot) -> Self {
        let mut screen = Self {
            view: View::new(),
            source: None,
            size: (80, 24),
            order: None,
        };
        screen.apply(Update::Snapshot(snapshot));
        assert_eq!(screen.order, None);
        screen
    }

    /// A screen of real servers.
    fn live(mut source: Source) -> Self {
        let mut screen = Self::of(source.read());
        screen.source = Some(source);
        screen.size = (140, 40);
        screen
    }

    fn apply(&mut self, update: Update) {
        self.order = self.view.apply(update);
    }

    fn read(&mut self) -> Snapshot {
        self.source.as_mut().expect("servers").read()
    }

    fn refresh(&mut self) {
        let snapshot = self.read();
        self.apply(Update::Snapshot(snapshot));
    }

    /// Presses a key and carries out its orders, as the program does.
    fn press(&mut self, code: KeyCode) {
        self.order = self.view.press(KeyEvent::new(code, KeyModifiers::NONE));
        while let (Some(source), Some(order)) = (&mut self.source, &self.order) {
            self.order = self.view.apply(source.follow(order));
        }
    }

    fn type_in(&mut self, text: &str) {
        for letter in text.chars() {
            self.press(KeyCode::Char(letter));
        }
    }

    /// The action that the last key ordered.
    fn action(&self) -> Option<&Action> {
        self.order.as_ref().map(|order| &order.action)
    }

    /// The keys, or sessions, of the rows of a table.
    fn keys(&self, panel: Panel) -> Vec<String> {
        let rows = self.view.rows(panel).into_iter();
        rows.map(|row| match row.id.what {
            What::Lock(key) => String::from_utf8(key).expect("text"),
            What::Program(session) => session.to_string(),
        })
        .collect()
    }

    fn picture(&self) -> String {
        let (width, height) = self.size;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let drawn = terminal.draw(|frame| draw(&self.view, frame));
        drawn.expect("a picture");
        terminal.backend().to_string()
    }

    #[track_caller]
    fn shows<const PARTS: usize>(&self, parts: [&str; PARTS]) {
        let picture = self.picture();
        for part in parts {
            assert!(picture.contains(part), "{part}:\n{picture}");
        }
    }
}
