//! The popups in front of the tables: a lock with its queue, a question, the help.

use crate::draw::{CHOSEN, FAINT, WARNING};
use crate::reply::Waiter;
use crate::view::{Mode, Question, Queue, View};
use crate::words;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap};

/// The width of a name in a question: keys may be of any length.
const MAX_NAME: usize = 60;

const HELP: &str = "\
Tab, 1 2 3     next table
↑ ↓ PgUp PgDn  choose a row (the lock stays chosen wherever it moves)
Home End       the first row, the last row
s              sort by the next column
r              reverse the order
/              only keys and owners that contain a text; Esc clears it
Space          freeze the view
Enter          who waits for the chosen lock
u              force-unlock the chosen lock (DEL), after confirmation
q, Ctrl-C      quit

In the queue of a lock:
k              kill the chosen waiter (CLIENT KILL), after confirmation;
               a queued call has no connection of its own
u              force-unlock the lock, after confirmation
Esc            back

Percentiles over several servers are those of the worst server.";

pub(crate) fn draw(view: &View, frame: &mut Frame) {
    match &view.mode {
        Mode::Tables | Mode::Filter => {}
        Mode::Help => {
            let area = middle(frame, 76, 21);
            let help = Paragraph::new(HELP).block(Block::bordered().title(" What the keys do "));
            frame.render_widget(help, area);
        }
        Mode::Queue(queue) => draw_queue(queue, frame),
        Mode::Confirm(question, back) => {
            if let Mode::Queue(queue) = back.as_ref() {
                draw_queue(queue, frame);
            }
            draw_question(question, frame);
        }
    }
}

fn draw_queue(queue: &Queue, frame: &mut Frame) {
    let area = middle(frame, frame.area().width.saturating_sub(6).min(120), 18);
    let key = short(&queue.lock_id.key);
    let block = Block::bordered().title(format!(" {key} on {} ", queue.lock_id.server));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [top, table, bottom] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(inside);

    let about = match &queue.held {
        Some(held) => vec![
            Line::from(format!("held by {}", words::name(&held.owner))),
            Line::from(format!(
                "for {}, left {}, lease {}, holds {}, token {}",
                words::length(held.held_ms),
                words::length(held.ttl_ms),
                words::length(held.lease_ms),
                held.holds,
                held.token
            )),
            Line::from(format!("{} wait", held.waiters)),
        ],
        None if queue.is_known => vec![Line::from("free")],
        None => vec![Line::from("…")],
    };
    frame.render_widget(Paragraph::new(about), top);

    let rows = queue.waiters.iter().enumerate().map(|(index, waiter)| {
        Row::new([
            (index + 1).to_string(),
            words::name(&waiter.owner),
            program(waiter),
            client(waiter),
            words::length(waiter.waited_ms),
            words::length(waiter.left_ms),
        ])
    });
    let widths = [
        Constraint::Length(4),
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
    ];
    let waiters = Table::new(rows, widths)
        .header(
            Row::new([
                "",
                "waiting owner",
                "program",
                "client",
                "waited",
                "gives up",
            ])
            .style(FAINT),
        )
        .row_highlight_style(CHOSEN);
    let mut state = TableState::new().with_selected(queue.position());
    frame.render_stateful_widget(waiters, table, &mut state);
    let keys = "↑↓ choose  k kill the waiter  u force-unlock  Esc back";
    frame.render_widget(Line::styled(keys, FAINT), bottom);
}

fn draw_question(question: &Question, frame: &mut Frame) {
    let (title, text) = match question {
        Question::Kill(lock_id, waiter) => (
            " Kill a waiter? ",
            format!(
                "Close the connection of client {}, which waits as {} for {} on {}?\n\
                 Whatever else it does on that connection ends too.",
                waiter.client_id,
                short_owner(&waiter.owner),
                short(&lock_id.key),
                lock_id.server,
            ),
        ),
        Question::Unlock(lock_id, held) => (
            " Force-unlock? ",
            format!(
                "Delete {} on {}, held by {} for {} (token {})?\n\
                 The owner is not asked and not told: it may still be at work. The first in line \
                 gets the lock.",
                short(&lock_id.key),
                lock_id.server,
                short_owner(&held.owner),
                words::length(held.held_ms),
                held.token,
            ),
        ),
    };
    let mut text = Text::from(text);
    text.push_line("");
    text.push_line(Line::styled("y: yes. Any other key: no.", WARNING));
    let area = middle(frame, 70, 11);
    let block = Block::bordered().title(title).border_style(WARNING);
    let question = Paragraph::new(text).wrap(Wrap { trim: false }).block(block);
    frame.render_widget(question, area);
}

/// The session of a call: its name, or its id if it has none or may not be listed.
fn program(waiter: &Waiter) -> String {
    match (waiter.session, waiter.program.as_slice()) {
        (0, _) => String::new(),
        (id, []) => id.to_string(),
        (_, name) => words::name(name),
    }
}

/// The client that is blocked. A queued call has none.
fn client(waiter: &Waiter) -> String {
    if waiter.is_queued {
        "queued".to_owned()
    } else {
        waiter.client_id.to_string()
    }
}

/// A name that is cut to leave space for the rest of the question.
fn short(name: &[u8]) -> String {
    words::cut(&words::name(name), MAX_NAME)
}

fn short_owner(name: &[u8]) -> String {
    words::cut_owner(&words::name(name), MAX_NAME)
}

/// Clears an area in the middle of the screen, no larger than the screen.
fn middle(frame: &mut Frame, width: u16, height: u16) -> Rect {
    let whole = frame.area();
    let (width, height) = (width.min(whole.width), height.min(whole.height));
    let area = Rect {
        x: (whole.width - width) / 2,
        y: (whole.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, area);
    area
}
