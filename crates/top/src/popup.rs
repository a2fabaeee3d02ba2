//! The popups in front of the tables: a lock with its queue, a program with its locks, a question, the help.

use crate::grid::{FAINT, Grid, WARNING};
use crate::order::short;
use crate::snapshot::{Claim, Found, What};
use crate::table::{Field, call, claim};
use crate::view::{Details, Mode, View};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear, Paragraph, TableState, Wrap};
use redis_lock_tool::{Program, Waiter, words};

const HELP: &str = "\
Tab, 1 2 3 4   another table
↑ ↓ PgUp PgDn  choose a row (it stays chosen wherever it moves)
Home End       the first row, the last row
/              only keys and owners that contain a text; Esc clears it
Space          freeze the view
Enter          who waits for the chosen lock; what the chosen program holds
u              force-unlock the chosen lock (DEL), after confirmation
k              end the session of the chosen program (LOCK.SESSION KILL),
               after confirmation
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
            let help = Paragraph::new(HELP).block(Block::bordered().title(" Keys "));
            frame.render_widget(help, area);
        }
        Mode::Confirm(question, _, back) => {
            draw_details(view, back, frame);
            draw_question(question, frame);
        }
        Mode::Details(_) => draw_details(view, &view.mode, frame),
    }
}

fn draw_details(view: &View, mode: &Mode, frame: &mut Frame) {
    let Mode::Details(details) = mode else {
        return;
    };
    let server = &details.id.server;
    let (title, about, keys, first) = match &details.id.what {
        What::Lock(key) => (
            format!(" {} on {server} ", short(key)),
            about_lock(details),
            "↑↓ choose  k kill the waiter  u force-unlock  Esc back",
            line_of_call(view, server, 0, &Waiter::default()),
        ),
        What::Program(session) => (
            format!(" session {session} on {server} "),
            about_program(view.now.program(server, *session)),
            "k end the session  Esc back",
            claim(0, &Claim::default()),
        ),
    };
    let lines: Vec<_> = match &details.found {
        Some(Found::Queue(_, waiters)) => (1..)
            .zip(waiters)
            .map(|(place, waiter)| line_of_call(view, server, place, waiter))
            .collect(),
        Some(Found::Claims(claims)) => (1..)
            .zip(claims)
            .map(|(place, one)| claim(place, one))
            .collect(),
        None => Vec::new(),
    };
    let grid = Grid {
        columns: first.into_iter().map(|(column, _)| column).collect(),
        lines,
        servers: false,
    };
    let area = middle(frame, frame.area().width.saturating_sub(6).min(120), 18);
    let block = Block::bordered().title(title);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [top, table, bottom] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(inside);
    let about: Vec<_> = about.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(about), top);
    let mut state = TableState::new().with_selected(details.position());
    let rows = grid.table(frame.area().width, table);
    frame.render_stateful_widget(rows, table, &mut state);
    frame.render_widget(Line::styled(keys, FAINT), bottom);
}

fn about_lock(details: &Details) -> Vec<String> {
    match &details.found {
        Some(Found::Queue(Some(held), _)) => vec![
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
        Some(_) => vec!["free".to_owned()],
        None => vec!["…".to_owned()],
    }
}

fn about_program(program: Option<&Program>) -> Vec<String> {
    let Some(program) = program else {
        return vec!["it has ended".to_owned()];
    };
    let user = words::name(&program.user);
    let (idle, age) = (program.idle_ms, program.age_ms);
    vec![
        format!(
            "{}, user {user}, client {}",
            program.label(),
            program.client_id
        ),
        format!(
            "{} for {}, open for {}",
            program.state().word(),
            words::length(idle),
            words::length(age)
        ),
        format!("holds {}, waits for {}", program.grants, program.waiting),
    ]
}

fn line_of_call(view: &View, server: &str, place: i64, waiter: &Waiter) -> Vec<Field> {
    let program = match view.now.program(server, waiter.session) {
        Some(program) => program.label(),
        None if waiter.session == 0 => String::new(),
        None => waiter.session.to_string(),
    };
    let client = if view.now.is_queued(server, waiter) {
        "queued".to_owned()
    } else {
        waiter.client_id.to_string()
    };
    call(place, waiter, program, client)
}

fn draw_question(question: &str, frame: &mut Frame) {
    let mut text = Text::from(question);
    text.push_line("");
    text.push_line(Line::styled("y: yes. Any other key: no.", WARNING));
    let area = middle(frame, 70, 11);
    let block = Block::bordered().title(" Sure? ").border_style(WARNING);
    let question = Paragraph::new(text).wrap(Wrap { trim: false }).block(block);
    frame.render_widget(question, area);
}

/// Clears an area in the middle of the screen. The area is never larger than the screen.
fn middle(frame: &mut Frame, width: u16, height: u16) -> Rect {
    let (width, height) = (Constraint::Length(width), Constraint::Length(height));
    let area = frame.area().centered(width, height);
    frame.render_widget(Clear, area);
    area
}
