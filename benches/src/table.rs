//! Tables of figures, for the terminal and for a page.

use std::fmt::{Display, Write};

use crate::part::Bar;
use crate::servers::Program;
use crate::stats::{Rounds, Spread};

/// A comparison and its figures.
pub(crate) struct Table {
    title: String,
    /// The explanation below the title.
    about: String,
    /// The titles of the columns. One that begins with "of " is the ratio of the figure before it to that of the row's
    /// base. The others are the figures of a row, in their order.
    columns: Vec<&'static str>,
    summary: fn(&Rounds) -> Option<Spread>,
    show: fn(Option<Spread>) -> String,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    /// The number of the row that this one is compared with.
    base: usize,
    /// Or why there are none.
    figures: Result<Vec<Rounds>, String>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, about: &str, columns: &[&'static str]) -> Self {
        Self {
            title: title.into(),
            about: about.to_owned(),
            columns: columns.to_vec(),
            summary: Rounds::spread,
            show: cell,
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

    /// With the quartiles of many short turns, not the minimum and the maximum of rounds.
    pub(crate) fn quartiles(self) -> Self {
        let summary = Rounds::quartiles;
        Self { summary, ..self }
    }

    /// Of whole numbers, each counted once.
    pub(crate) fn counts(self) -> Self {
        let show = |count: Option<Spread>| {
            count.map_or_else(String::new, |count| count.median.to_string())
        };
        Self { show, ..self }
    }

    /// A row that is compared with the row `base`; the error says why it has no figures.
    pub(crate) fn row(
        &mut self,
        name: impl Into<String>,
        base: usize,
        figures: Result<Vec<Rounds>, String>,
    ) {
        let name = name.into();
        self.rows.push(Row {
            name,
            base,
            figures,
        });
    }

    /// A row of figures that were measured once.
    pub(crate) fn once(&mut self, name: impl Into<String>, figures: &[f64]) {
        let figures = figures.iter().copied().map(Rounds::from).collect();
        self.row(name, self.rows.len(), Ok(figures));
    }

    /// A row of each contestant, compared with the first of these.
    pub(crate) fn rows(
        mut self,
        names: impl IntoIterator<Item: Into<String>>,
        figures: impl IntoIterator<Item: Into<Vec<Rounds>>>,
    ) -> Self {
        let base = self.rows.len();
        for (name, figures) in names.into_iter().zip(figures) {
            self.row(name, base, Ok(figures.into()));
        }
        self
    }

    /// A figure of a row.
    pub(crate) fn figure(&self, row: usize, figure: usize) -> Option<Spread> {
        (self.summary)(self.rounds(row, figure)?)
    }

    /// Its ratio to that of the row's base.
    pub(crate) fn over(&self, row: usize, figure: usize) -> Option<Spread> {
        self.ratio(row, figure, self.rows.get(row)?.base)
    }

    /// Its ratio to that of another row, round by round; none when one of them is left out.
    pub(crate) fn ratio(&self, row: usize, figure: usize, base: usize) -> Option<Spread> {
        let base = self.rounds(base, figure)?;
        (self.summary)(&self.rounds(row, figure)?.over(base))
    }

    fn rounds(&self, row: usize, figure: usize) -> Option<&Rounds> {
        self.rows.get(row)?.figures.as_ref().ok()?.get(figure)
    }

    /// The ratio in each row, to that of `base` or of its own base.
    pub(crate) fn bars(
        &self,
        figure: usize,
        base: Option<usize>,
        is_ours: impl Fn(&str) -> bool,
    ) -> Vec<Bar> {
        let bar = |(number, row): (usize, &Row)| {
            Some(Bar {
                name: row.name.clone(),
                ratio: self.ratio(number, figure, base.unwrap_or(row.base))?,
                ours: is_ours(&row.name),
            })
        };
        self.rows.iter().enumerate().filter_map(bar).collect()
    }

    /// The table for a terminal.
    pub(crate) fn text(&self) -> String {
        let lines = self.lines();
        let width = |column: usize| {
            // The reason why a row is left out may be long.
            let whole = |line: &&Vec<String>| column == 0 || line.len() > self.columns.len();
            let cells = lines.iter().filter(whole).map(|line| &line[column]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..=self.columns.len()).map(width).collect();
        let mut text = format!("{}\n{}\n", self.title, self.about);
        for line in &lines {
            let _ = write!(text, "  {:1$}", line[0], widths[0]);
            for (cell, width) in line.iter().zip(&widths).skip(1) {
                let _ = write!(text, "  {cell:>width$}");
            }
            text.push('\n');
        }
        text
    }

    /// The table for a page.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("### {}\n\n{}\n\n", self.title, self.about);
        for (number, mut line) in self.lines().into_iter().enumerate() {
            line.resize(self.columns.len() + 1, String::new());
            text.push('|');
            for cell in line {
                let space = if cell.is_empty() { "" } else { " " };
                let _ = write!(text, " {cell}{space}|");
            }
            text.push('\n');
            if number == 0 {
                let right = " ---: |".repeat(self.columns.len());
                let _ = writeln!(text, "| --- |{right}");
            }
        }
        text
    }

    /// The titles of the columns, then each row: its name and its cells.
    fn lines(&self) -> Vec<Vec<String>> {
        let titles = std::iter::once("").chain(self.columns.iter().copied());
        let titles = titles.map(str::to_owned).collect();
        let rows = self.rows.iter().enumerate().map(|(number, row)| {
            let mut line = vec![row.name.clone()];
            match &row.figures {
                Ok(_) => line.extend(self.cells(number).map(self.show)),
                Err(why) => line.push(format!("left out: {why}")),
            }
            line
        });
        std::iter::once(titles).chain(rows).collect()
    }

    fn cells(&self, row: usize) -> impl Iterator<Item = Option<Spread>> {
        let mut figures = 0;
        self.columns.iter().map(move |title| {
            if title.starts_with("of ") {
                return self.over(row, figures - 1);
            }
            figures += 1;
            self.figure(row, figures - 1)
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
        let mut table = Table::new("Pairs", "Less is better.", &["ns", "of plain"]);
        let rounds = |figures: [f64; 2]| {
            let mut rounds = Rounds::from(figures[0]);
            rounds.push(figures[1]);
            Ok(vec![rounds])
        };
        table.row("plain", 0, rounds([1000.0, 1500.0]));
        table.row("ours", 0, rounds([2000.0, 1500.0]));
        table.row("other", 0, Err("no Java".to_owned()));
        assert_eq!(
            table.text(),
            "Pairs\nLess is better.\n                        ns           of plain\n  plain  1500 (1000..1500)               1.00\n  ours   2000 (1500..2000)  2.00 (1.00..2.00)\n  other  left out: no Java\n"
        );
        assert_eq!(
            table.markdown(),
            "### Pairs\n\nLess is better.\n\n| | ns | of plain |\n| --- | ---: | ---: |\n| plain | 1500 (1000..1500) | 1.00 |\n| ours | 2000 (1500..2000) | 2.00 (1.00..2.00) |\n| other | left out: no Java | |\n"
        );
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        let texts = [1234.6, 123.4, 12.34, 1.234, 0.0].map(number);
        assert_eq!(texts, ["1235", "123", "12.3", "1.23", "0"]);
    }
}
