//! The popups in front of the tables: a lock with its queue, a program with its locks, a question, the help.

use crate::draw::{CHOSEN, FAINT, WARNING};
use crate::view::{Claims, Mode, Question, Queue, View};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap};
use redis_lock_tool::{Program, Waiter, words};

/// The width of a name in a question: keys may be of any length.
const MAX_NAME: usize = 60;

const HELP: &str = "\
Tab, 1 2 3 4   another table
↑ ↓ PgUp PgDn  choose a row (it stays chosen wherever it moves)
Home End       the first row, the last row
s              sort by the next column
r              reverse the order
/              only keys and owners that contain a text; Esc clears it
Space          freeze the view
Enter          who waits for the chosen lock; what the chosen program holds
u              force-unlock the chosen lock (DEL), after confirmation
k              end the session of the chosen program (LOCK.SESSION KILL),
               after a question
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
            let area = middle(frame, 76, 23);
            let help = Paragraph::new(HELP).block(Block::bordered().title(" What the keys do "));
            frame.render_widget(help, area);
        }
        Mode::Confirm(question, back) => {
            draw_details(view, back, frame);
            draw_question(question, frame);
        }
        details => draw_details(view, details, frame),
    }
}

/// The text of a popup about a lock or a program: lines, and a table.
struct Details {
    title: String,
    about: Vec<String>,
    header: [&'static str; 6],
    widths: [Constraint; 6],
    rows: Vec<[String; 6]>,
    chosen: Option<usize>,
    keys: &'static str,
}

fn draw_details(view: &View, mode: &Mode, frame: &mut Frame) {
    let details = match mode {
        Mode::Queue(queue) => queue_details(view, queue),
        Mode::Claims(claims) => claims_details(view, claims),
        _ => return,
    };
    let area = middle(frame, frame.area().width.saturating_sub(6).min(120), 18);
    let block = Block::bordered().title(format!(" {} ", details.title));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [top, table, bottom] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(inside);
    let about: Vec<_> = details.about.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(about), top);
    let rows = details.rows.into_iter().map(Row::new);
    let rows = Table::new(rows, details.widths)
        .header(Row::new(details.header).style(FAINT))
        .row_highlight_style(CHOSEN);
    let mut state = TableState::new().with_selected(details.chosen);
    frame.render_stateful_widget(rows, table, &mut state);
    frame.render_widget(Line::styled(details.keys, FAINT), bottom);
}

fn queue_details(view: &View, queue: &Queue) -> Details {
    let server = queue.lock_id.server.as_str();
    let row = |(index, waiter): (usize, &Waiter)| {
        let program = match view.now.program(server, waiter.session) {
            Some(program) => program_name(program),
            None if waiter.session == 0 => String::new(),
            None => waiter.session.to_string(),
        };
        let client = if view.now.is_queued(server, waiter) {
            "queued".to_owned()
        } else {
            waiter.client_id.to_string()
        };
        [
            (index + 1).to_string(),
            words::name(&waiter.owner),
            program,
            client,
            words::length(waiter.waited_ms),
            words::length(waiter.left_ms),
        ]
    };
    Details {
        title: format!("{} on {server}", short(&queue.lock_id.key)),
        about: match &queue.held {
            Some(held) => vec![
                format!("held by {}", words::name(&held.owner)),
                format!(
                    "for {}, left {}, lease {}, holds {}, token {}",
                    words::length(held.held_ms),
                    words::length(held.ttl_ms),
                    words::length(held.lease_ms),
                    held.holds,
                    held.token
                ),
                format!("{} wait", held.waiters),
            ],
            None if queue.is_known => vec!["free".to_owned()],
            None => vec!["…".to_owned()],
        },
        header: [
            "",
            "waiting owner",
            "program",
            "client",
            "waited",
            "gives up",
        ],
        widths: [
            Constraint::Length(4),
            Constraint::Fill(2),
            Constraint::Fill(1),
            Constraint::Length(8),
            Constraint::Length(8),
            Constraint::Length(8),
        ],
        rows: queue.waiters.iter().enumerate().map(row).collect(),
        chosen: queue.position(),
        keys: "↑↓ choose  k kill the waiter  u force-unlock  Esc back",
    }
}

fn claims_details(view: &View, shown: &Claims) -> Details {
    let program = view.now.program(&shown.id.server, shown.id.session);
    let claims = shown.claims.iter().flatten().enumerate();
    let rows = claims.map(|(index, claim)| {
        let state = if claim.waited_ms.is_some() {
            "waits"
        } else {
            "holds"
        };
        [
            (index + 1).to_string(),
            state.to_owned(),
            words::name(&claim.key),
            words::name(&claim.owner),
            claim.waited_ms.map_or_else(String::new, words::length),
            words::length(claim.left_ms),
        ]
    });
    Details {
        title: format!("session {} on {}", shown.id.session, shown.id.server),
        about: match program {
            Some(program) => vec![
                format!(
                    "{}, user {}, client {}",
                    program_name(program),
                    words::name(&program.user),
                    program.client_id
                ),
                format!(
                    "{} for {}, open for {}",
                    program.state().word(),
                    words::length(program.idle_ms),
                    words::length(program.age_ms)
                ),
                format!("holds {}, waits for {}", program.grants, program.waiting),
            ],
            None => vec!["it has ended".to_owned()],
        },
        header: ["", "", "lock", "owner", "waited", "left"],
        widths: [
            Constraint::Length(4),
            Constraint::Length(5),
            Constraint::Fill(1),
            Constraint::Fill(1),
            Constraint::Length(8),
            Constraint::Length(8),
        ],
        rows: rows.collect(),
        chosen: None,
        keys: "k end the session  Esc back",
    }
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
        Question::End(id, program) => (
            " End a program's session? ",
            format!(
                "End session {} of {} on {}, and release the {} locks that it holds?\n\
                 Its {} waiting calls end. It is {}: make sure that it is not at work.",
                id.session,
                words::cut(&program_name(program), MAX_NAME),
                id.server,
                program.grants,
                program.waiting,
                program.state().word(),
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

/// The name of a program, or its session if it has none.
pub(crate) fn program_name(program: &Program) -> String {
    match program.name.as_slice() {
        [] => program.id.to_string(),
        name => words::name(name),
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
