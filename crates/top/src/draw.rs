//! Draws the view: figures at the top, tables below, and a popup in front.

use crate::popup;
use crate::snapshot::Server;
use crate::table::{Column, Panel, Row, SERVER};
use crate::view::{Mode, View};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell as TableCell, Paragraph, Row as TableRow, Table, TableState};
use redis_lock_tool::words;

/// From this height on all tables are shown, else one.
const TALL: u16 = 36;
/// The most warnings that are shown.
const MAX_WARNINGS: usize = 3;

pub(crate) const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
pub(crate) const FAINT: Style = Style::new().fg(Color::DarkGray);
pub(crate) const WARNING: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const NAMED: Style = Style::new().fg(Color::Cyan);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// The whole screen.
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
    let count = |field| {
        now.sum(field)
            .map_or("-".to_owned(), |number| number.to_string())
    };
    let max = |field| {
        now.largest(field)
            .map_or("-".to_owned(), |number| number.to_string())
    };
    let ms = |field| now.largest(field).map_or("-".to_owned(), words::length);
    let rate = |field| {
        view.rate(field)
            .map_or("-".to_owned(), |rate| format!("{rate:.1}"))
    };
    vec![
        title(view),
        pairs(&[
            ("held", count("lock_held")),
            ("waiting", count("lock_waiting")),
            ("queued", count("lock_queued")),
            ("longest queue", max("lock_longest_queue")),
            ("refused/s", rate("lock_refusals")),
            ("given up/s", rate("lock_waits_given_up")),
        ]),
        pairs(&[
            ("grants/s", rate("lock_grants")),
            ("hand-offs/s", rate("lock_hand_offs")),
            ("time-outs/s", rate("lock_wait_timeouts")),
            ("expirations/s", rate("lock_expirations")),
        ]),
        pairs(&[
            ("waited p50", ms("lock_wait_ms_p50")),
            ("p99", ms("lock_wait_ms_p99")),
            ("max", ms("lock_wait_ms_max")),
            ("held p50", ms("lock_hold_ms_p50")),
            ("p99", ms("lock_hold_ms_p99")),
            ("max", ms("lock_hold_ms_max")),
        ]),
    ]
}

fn pairs(pairs: &[(&'static str, String)]) -> Line<'static> {
    let mut spans = Vec::new();
    for (name, value) in pairs {
        spans.push(Span::styled(format!("{name} "), FAINT));
        spans.push(Span::styled(format!("{value}   "), BOLD));
    }
    Line::from(spans)
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

/// The kind and version of a server, as far as known.
fn kind(server: &Server) -> String {
    let info = &server.info;
    let valkey = info
        .get("valkey_version")
        .map(|version| format!("Valkey {version}"));
    let redis = || {
        info.get("redis_version")
            .map(|version| format!("Redis {version}"))
    };
    let kind = valkey.or_else(redis).unwrap_or_default();
    match info.get("role").map(String::as_str) {
        Some("slave") => format!("{kind}, a replica: nobody waits here"),
        _ => kind,
    }
}

/// Warnings, and whether the tables are complete.
fn notes(view: &View) -> Vec<Line<'static>> {
    let mut notes = Vec::new();
    let mut searching = 0;
    for server in &view.now.servers {
        let address = words::name(server.address.as_bytes());
        if let Some(error) = &server.error {
            let text = format!("{address}: {}", words::name(error.as_bytes()));
            notes.push(Line::styled(text, WARNING));
        }
        let policy = server.info.get("maxmemory_policy");
        if let Some(policy) = policy.filter(|policy| *policy != "noeviction") {
            let text = format!("{address}: maxmemory-policy {policy} can evict held locks");
            notes.push(Line::styled(text, WARNING));
        }
        if !server.searched {
            searching += server.keys;
        }
    }
    for (id, program) in &view.now.programs {
        if program.is_stuck() {
            let text = format!(
                "{}: {} is {}: holds {}, waits for {}",
                words::name(id.server.as_bytes()),
                popup::program_name(program),
                program.state().word(),
                program.grants,
                program.waiting
            );
            notes.push(Line::styled(text, WARNING));
        }
    }
    // The tables need the space.
    if notes.len() > MAX_WARNINGS {
        let more = notes.len() - MAX_WARNINGS + 1;
        notes.truncate(MAX_WARNINGS - 1);
        notes.push(Line::styled(
            format!("and {more} more of the kind"),
            WARNING,
        ));
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
    let sort = view.sort(panel);
    let columns = panel.columns();
    let shown: Vec<_> = columns
        .iter()
        .enumerate()
        .filter(|(_, column)| area.width >= column.from)
        .filter(|(_, column)| column.name != SERVER || view.now.servers.len() > 1)
        .collect();
    let width = width_of_names(area, &shown);
    let heading = |(index, column): &(usize, &Column)| {
        let mark = match (*index == sort.column, sort.descending) {
            (false, _) => "",
            (true, true) => "▾",
            (true, false) => "▴",
        };
        aligned(format!("{}{mark}", column.name), column).style(BOLD)
    };
    let line = |row: &Row| {
        let cells = shown.iter().map(|(index, column)| {
            let cell = &row.cells[*index];
            let text = match column.width {
                0 => cell.text_within(width),
                _ => cell.text(),
            };
            aligned(text, column)
        });
        TableRow::new(cells.collect::<Vec<_>>())
    };
    let widths = shown.iter().map(|(_, column)| match column.width {
        0 => Constraint::Fill(1),
        // One more for the mark of the sorted column.
        width => Constraint::Length(width + 1),
    });
    let is_current = view.panel == panel;
    let number = panel as usize + 1;
    let filter = match view.filter.as_str() {
        "" => String::new(),
        filter => format!(", with \"{filter}\" in a name"),
    };
    let title = format!(" {number} {}: {}{filter} ", panel.title(), rows.len());
    let border = if is_current { NAMED } else { FAINT };
    let table = Table::new(rows.iter().map(line), widths)
        .header(TableRow::new(shown.iter().map(heading)))
        .block(Block::bordered().title(title).border_style(border))
        .row_highlight_style(if is_current { CHOSEN } else { Style::new() });
    let mut state = TableState::new().with_selected(view.chosen(panel, &rows));
    frame.render_stateful_widget(table, area, &mut state);
}

/// The width of a column of names: what the other columns, the spaces and the border leave.
fn width_of_names(area: Rect, shown: &[(usize, &Column)]) -> usize {
    let taken = |(_, column): &(usize, &Column)| match column.width {
        0 => 1,
        width => usize::from(width) + 2,
    };
    let taken: usize = shown.iter().map(taken).sum::<usize>() + 1;
    let names = shown.iter().filter(|(_, column)| column.width == 0);
    usize::from(area.width).saturating_sub(taken) / names.count().max(1)
}

fn aligned(text: String, column: &Column) -> TableCell<'static> {
    let alignment = match column.width {
        0 => Alignment::Left,
        _ if column.name == SERVER => Alignment::Left,
        _ => Alignment::Right,
    };
    TableCell::from(Line::from(text).alignment(alignment))
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
