//! A table on the screen.

use crate::table::{Column, Field, SERVER};
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};

pub(crate) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(crate) const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
pub(crate) const FAINT: Style = Style::new().fg(Color::DarkGray);
pub(crate) const NAMED: Style = Style::new().fg(Color::Cyan);
pub(crate) const WARNING: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Lines of fields, and how they are shown.
pub(crate) struct Grid {
    pub(crate) columns: Vec<Column>,
    pub(crate) lines: Vec<Vec<Field>>,
    /// True if the column of servers is shown.
    pub(crate) servers: bool,
}

impl Grid {
    /// Builds the table for an area, with the columns that fit on a screen of this width.
    pub(crate) fn table(&self, screen: u16, inside: Rect) -> Table<'static> {
        let shown = self.columns.iter().enumerate();
        let shown: Vec<_> = shown
            .filter(|(_, column)| screen >= column.from)
            .filter(|(_, column)| column.name != SERVER || self.servers)
            .collect();
        let width = width_of_names(inside, &shown);
        let line = |fields: &Vec<Field>| {
            let cells = shown.iter().map(|(index, column)| {
                let cell = &fields[*index].1;
                let text = match column.width {
                    0 => cell.text_within(width),
                    _ => cell.text(),
                };
                aligned(text, column)
            });
            Row::new(cells.collect::<Vec<_>>())
        };
        let heading =
            |(_, column): &(usize, &Column)| aligned(column.name.to_owned(), column).style(BOLD);
        let widths = shown.iter().map(|(_, column)| match column.width {
            0 => Constraint::Fill(1),
            width => Constraint::Length(width),
        });
        Table::new(self.lines.iter().map(line), widths)
            .header(Row::new(shown.iter().map(heading)))
            .row_highlight_style(CHOSEN)
    }
}

/// The width of a column of names, which is what the other columns and the spaces leave.
fn width_of_names(inside: Rect, shown: &[(usize, &Column)]) -> usize {
    let taken = |(_, column): &(usize, &Column)| match column.width {
        0 => 1,
        width => usize::from(width) + 1,
    };
    let taken: usize = shown.iter().map(taken).sum();
    let names = shown.iter().filter(|(_, column)| column.width == 0);
    (usize::from(inside.width) + 1).saturating_sub(taken) / names.count().max(1)
}

fn aligned(text: String, column: &Column) -> Cell<'static> {
    let alignment = match column.width {
        0 => Alignment::Left,
        _ if column.name == SERVER => Alignment::Left,
        _ => Alignment::Right,
    };
    Cell::from(Line::from(text).alignment(alignment))
}
