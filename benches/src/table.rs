//! Tables of figures, for the terminal and for a page.

use std::fmt::{Display, Write};

use crate::servers::Program;
use crate::stats::{Rounds, Spread, spreads};

/// A comparison and its figures.
pub(crate) struct Table {
    pub(crate) title: String,
    /// The explanation below the title.
    pub(crate) about: String,
    pub(crate) columns: Vec<&'static str>,
    rows: Vec<(String, Cells)>,
}

enum Cells {
    Measured(Vec<Option<Spread>>),
    Counted(Vec<usize>),
    LeftOut(String),
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, about: &str, columns: &[&'static str]) -> Self {
        Self {
            title: title.into(),
            about: about.to_owned(),
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Of measurements on this server, whose version ends the title.
    pub(crate) fn of(
        program: &Program,
        title: impl Display,
        about: &str,
        columns: &[&'static str],
    ) -> Self {
        Self::new(format!("{title}: {}", program.version), about, columns)
    }

    /// A row of as many figures as there are columns.
    pub(crate) fn row(&mut self, name: impl Into<String>, cells: Vec<Option<Spread>>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push((name.into(), Cells::Measured(cells)));
    }

    /// A row of each contestant: its figures.
    pub(crate) fn rows<const FIGURES: usize>(
        mut self,
        names: impl IntoIterator<Item: Into<String>>,
        figures: &[[Rounds; FIGURES]],
    ) -> Self {
        for (name, figures) in names.into_iter().zip(figures) {
            self.row(name, spreads(figures));
        }
        self
    }

    /// A row of each contestant: its figure, and the ratio to that of the first.
    pub(crate) fn rows_over_first(
        mut self,
        names: impl IntoIterator<Item: Into<String>>,
        figures: &[[Rounds; 1]],
    ) -> Self {
        for (name, [figure]) in names.into_iter().zip(figures) {
            let ratio = figure.over(&figures[0][0]);
            self.row(name, vec![figure.spread(), ratio.spread()]);
        }
        self
    }

    /// A row of as many counts as there are columns.
    pub(crate) fn count(&mut self, name: impl Into<String>, counts: Vec<usize>) {
        debug_assert_eq!(counts.len(), self.columns.len());
        self.rows.push((name.into(), Cells::Counted(counts)));
    }

    /// A row that says why it has no figures.
    pub(crate) fn left_out(&mut self, name: impl Into<String>, why: impl Into<String>) {
        let why = format!("left out: {}", why.into());
        self.rows.push((name.into(), Cells::LeftOut(why)));
    }

    /// The table for a terminal.
    pub(crate) fn text(&self) -> String {
        let rows: Vec<(&str, Vec<String>)> = self.lines().collect();
        let name_width = rows.iter().map(|(name, _)| name.chars().count()).max();
        let name_width = name_width.unwrap_or(0);
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(column, title)| {
                let cells = rows.iter().filter(|(_, cells)| cells.len() > 1);
                let longest = cells
                    .filter_map(|(_, cells)| cells.get(column))
                    .map(|cell| cell.chars().count())
                    .max();
                longest.unwrap_or(0).max(title.chars().count())
            })
            .collect();
        let mut text = format!("{}\n{}\n", self.title, self.about);
        let _ = write!(text, "  {:name_width$}", "");
        for (title, &width) in self.columns.iter().zip(&widths) {
            let _ = write!(text, "  {title:>width$}");
        }
        text.push('\n');
        for (name, cells) in rows {
            let _ = write!(text, "  {name:name_width$}");
            for (cell, &width) in cells.iter().zip(&widths) {
                let _ = write!(text, "  {cell:>width$}");
            }
            text.push('\n');
        }
        text
    }

    /// The table for a page.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("### {}\n\n{}\n\n| |", self.title, self.about);
        for title in &self.columns {
            let _ = write!(text, " {title} |");
        }
        text.push_str("\n| --- |");
        text.push_str(&" ---: |".repeat(self.columns.len()));
        text.push('\n');
        for (name, cells) in self.lines() {
            let _ = write!(text, "| {name} |");
            for cell in &cells {
                let _ = write!(text, " {cell} |");
            }
            // A row without figures has one cell.
            text.push_str(&" |".repeat(self.columns.len() - cells.len()));
            text.push('\n');
        }
        text
    }

    fn lines(&self) -> impl Iterator<Item = (&str, Vec<String>)> {
        self.rows.iter().map(|(name, cells)| {
            let cells = match cells {
                Cells::LeftOut(why) => vec![why.clone()],
                Cells::Counted(counts) => counts.iter().map(usize::to_string).collect(),
                Cells::Measured(spreads) => spreads.iter().copied().map(cell).collect(),
            };
            (name.as_str(), cells)
        })
    }
}

/// `1.25 (1.20..1.31)`; the median alone when all rounds have the same figure.
pub(crate) fn cell(spread: Option<Spread>) -> String {
    let Some(Spread { low, median, high }) = spread else {
        return "-".to_owned();
    };
    let [low, median, high] = [low, median, high].map(number);
    if low == high {
        median
    } else {
        format!("{median} ({low}..{high})")
    }
}

/// Three significant digits, and at most two decimals.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_same_cells_on_a_terminal_and_on_a_page() {
        let mut table = Table::new("Pairs", "Less is better.", &["ns", "ratio"]);
        let spread = |median| {
            Some(Spread {
                low: median,
                median,
                high: median * 1.5,
            })
        };
        table.row("plain", vec![spread(1000.0), None]);
        table.count("many", vec![2, 10]);
        table.left_out("other", "no Java");
        assert_eq!(
            table.text(),
            "Pairs\nLess is better.\n                        ns  ratio\n  plain  1000 (1000..1500)      -\n  many                   2     10\n  other  left out: no Java\n"
        );
        assert_eq!(
            table.markdown(),
            "### Pairs\n\nLess is better.\n\n| | ns | ratio |\n| --- | ---: | ---: |\n| plain | 1000 (1000..1500) | - |\n| many | 2 | 10 |\n| other | left out: no Java | |\n"
        );
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        let texts = [1234.6, 123.4, 12.34, 1.234, 0.0].map(number);
        assert_eq!(texts, ["1235", "123", "12.3", "1.23", "0"]);
    }
}
