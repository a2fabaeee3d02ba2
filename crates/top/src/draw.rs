//! Draws the view: figures at the top, tables below, and a popup in front.

use crate::grid::{BOLD, FAINT, Grid, NAMED, WARNING};
use crate::popup;
use crate::snapshot::Server;
use crate::table::Panel;
use crate::view::{Mode, View};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, TableState};
use redis_lock_tool::{server_version, words};

/// From this height on all tables are shown, otherwise only one.
const TALL: u16 = 36;
/// The most warnings that are shown.
const MAX_WARNINGS: usize = 3;

/// How a field of `INFO` is combined over all servers.
enum Shown {
    Sum,
    Largest,
    Longest,
    Rate,
}

/// The figures above the tables, line by line.
const FIGURES: [&[(&str, Shown, &str)]; 3] = [
    &[
        ("held", Shown::Sum, "lock_held"),
        ("waiting", Shown::Sum, "lock_waiting"),
        ("queued", Shown::Sum, "lock_queued"),
        ("longest queue", Shown::Largest, "lock_longest_queue"),
        ("refused/s", Shown::Rate, "lock_refusals"),
        ("given up/s", Shown::Rate, "lock_waits_given_up"),
    ],
    &[
        ("grants/s", Shown::Rate, "lock_grants"),
        ("hand-offs/s", Shown::Rate, "lock_hand_offs"),
        ("time-outs/s", Shown::Rate, "lock_wait_timeouts"),
        ("expirations/s", Shown::Rate, "lock_expirations"),
    ],
    &[
        ("waited p50", Shown::Longest, "lock_wait_ms_p50"),
        ("p99", Shown::Longest, "lock_wait_ms_p99"),
        ("max", Shown::Longest, "lock_wait_ms_max"),
        ("held p50", Shown::Longest, "lock_hold_ms_p50"),
        ("p99", Shown::Longest, "lock_hold_ms_p99"),
        ("max", Shown::Longest, "lock_hold_ms_max"),
    ],
];

/// Draws the whole screen.
pub(crate) fn draw(view: &View, frame: &mut Frame) {
    let notes = notes(view);
    let height = u16::try_from(notes.len()).unwrap_or(0);
    let areas = [
        Constraint::Length(4),
        Constraint::Length(height),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [top, middle, tables, bottom] = Layout::vertical(areas).areas(frame.area());
    frame.render_widget(Paragraph::new(figures(view)), top);
    frame.render_widget(Paragraph::new(notes), middle);
    if frame.area().height >= TALL {
        let areas = Layout::vertical(Panel::ALL.map(|_| Constraint::Fill(1))).split(tables);
        for (panel, area) in Panel::ALL.into_iter().zip(areas.iter()) {
            draw_table(view, panel, frame, *area);
        }
    } else {
        draw_table(view, view.panel, frame, tables);
    }
    frame.render_widget(Paragraph::new(keys(view)), bottom);
    popup::draw(view, frame);
}

/// The figures above the tables.
fn figures(view: &View) -> Vec<Line<'static>> {
    let now = &view.now;
    let line = |figures: &[(&'static str, Shown, &str)]| {
        let spans = figures.iter().flat_map(|(name, shown, field)| {
            let value = match shown {
                Shown::Sum => now.sum(field).map(|number| number.to_string()),
                Shown::Largest => now.largest(field).map(|number| number.to_string()),
                Shown::Longest => now.largest(field).map(words::length),
                Shown::Rate => view.rate(field).map(|rate| format!("{rate:.1}")),
            };
            let value = value.unwrap_or_else(|| "-".to_owned());
            [
                Span::styled(format!("{name} "), FAINT),
                Span::styled(format!("{value}   "), BOLD),
            ]
        });
        Line::from(spans.collect::<Vec<_>>())
    };
    let lines = FIGURES.into_iter().map(line);
    [title(view)].into_iter().chain(lines).collect()
}

fn title(view: &View) -> Line<'static> {
    let servers = &view.now.servers;
    let who = match servers.as_slice() {
        [] => "connecting".to_owned(),
        [server] => format!(
            "{} {}",
            words::name(server.address.as_bytes()),
            kind(server)
        ),
        [first, ..] => format!("{} primaries, {}", servers.len(), kind(first)),
    };
    let paused = if view.is_paused { "  paused" } else { "" };
    Line::from(vec![
        Span::styled("redis-lock-top  ", BOLD),
        Span::styled(who, NAMED),
        Span::styled(paused, WARNING),
    ])
}

/// The known software and version of a server.
fn kind(server: &Server) -> String {
    let info = &server.info;
    let (name, version) = server_version(info).unwrap_or_default();
    let kind = format!("{name} {version}");
    match info.get("role").map(String::as_str) {
        Some("slave") => format!("{kind}, a replica: nobody waits here"),
        _ => kind,
    }
}

/// Warnings, and a note if the tables are not complete yet.
fn notes(view: &View) -> Vec<Line<'static>> {
    let mut notes = Vec::new();
    let mut searching = 0;
    for server in &view.now.servers {
        let mut warn = |text: String| {
            let text = format!("{}: {text}", words::name(server.address.as_bytes()));
            notes.push(Line::styled(text, WARNING));
        };
        if let Some(error) = &server.error {
            warn(words::name(error.as_bytes()));
        }
        let policy = server.info.get("maxmemory_policy");
        if let Some(policy) = policy.filter(|policy| *policy != "noeviction") {
            warn(format!("maxmemory-policy {policy} can evict held locks"));
        }
        for program in server.programs.iter().filter(|one| one.is_stuck()) {
            let (name, state) = (program.label(), program.state().word());
            let (holds, waits) = (program.grants, program.waiting);
            warn(format!(
                "{name} is {state}: holds {holds}, waits for {waits}"
            ));
        }
        if !server.searched {
            searching += server.keys;
        }
    }
    // Shorten the warnings, because the tables need the space.
    if notes.len() > MAX_WARNINGS {
        let more = notes.len() - MAX_WARNINGS + 1;
        notes.truncate(MAX_WARNINGS - 1);
        notes.push(Line::styled(format!("and {more} more like this"), WARNING));
    }
    if searching > 0 {
        let text =
            format!("still searching {searching} keys for locks: the tables are not complete");
        notes.push(Line::styled(text, FAINT));
    }
    notes
}

fn draw_table(view: &View, panel: Panel, frame: &mut Frame, area: Rect) {
    let rows = view.rows(panel);
    let mut state = TableState::new().with_selected(view.chosen(panel, &rows));
    let is_current = view.panel == panel;
    let number = panel as usize + 1;
    let filter = match view.filter.as_str() {
        "" => String::new(),
        filter => format!(", with \"{filter}\" in a name"),
    };
    let title = format!(" {number} {}: {}{filter} ", panel.title(), rows.len());
    let border = if is_current { NAMED } else { FAINT };
    let block = Block::bordered().title(title).border_style(border);
    let grid = Grid {
        columns: panel.columns(),
        lines: rows.into_iter().map(|row| row.fields).collect(),
        servers: view.now.servers.len() > 1,
    };
    let mut table = grid.table(area.width, block.inner(area)).block(block);
    if !is_current {
        table = table.row_highlight_style(Style::new());
    }
    frame.render_stateful_widget(table, area, &mut state);
}

fn keys(view: &View) -> Line<'static> {
    if let Mode::Filter = view.mode {
        return Line::from(format!(
            "names with: {}_   Enter keeps it, Esc clears it",
            view.filter
        ));
    }
    match &view.message {
        Some(message) => Line::styled(words::name(message.as_bytes()), BOLD),
        None => Line::styled(
            "? help  q quit  Tab table  ↑↓ choose  Enter more  u unlock  k end  / filter",
            FAINT,
        ),
    }
}
