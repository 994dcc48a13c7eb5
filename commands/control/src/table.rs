//! Tables and numbers for people.

use std::io::{self, Write};

/// The alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows of text under a heading, every column as wide as its widest cell.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; cells that are left out are empty.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let headings: Vec<String> = self.columns.iter().map(|(h, _)| (*h).to_owned()).collect();
        let widths = self.widths(&headings);
        for row in std::iter::once(&headings).chain(&self.rows) {
            writeln!(out, "{}", self.line(row, &widths))?;
        }
        Ok(())
    }

    fn widths(&self, headings: &[String]) -> Vec<usize> {
        let width = |column: usize| {
            let cells =
                std::iter::once(&headings[column]).chain(self.rows.iter().map(|r| &r[column]));
            cells.map(|c| c.chars().count()).max().unwrap_or(0)
        };
        (0..self.columns.len()).map(width).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, width), (_, align)) in row.iter().zip(widths).zip(&self.columns) {
            let cell = match align {
                Align::Left => format!("{cell:<width$}  "),
                Align::Right => format!("{cell:>width$}  "),
            };
            line.push_str(&cell);
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// With a comma between thousands.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Likewise, or a dash for a number that is not counted.
pub(crate) fn counted(n: Option<u64>) -> String {
    n.map_or_else(|| "-".into(), grouped)
}

/// A time span, in its two largest units.
pub(crate) fn span(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    match seconds {
        0..60 => format!("{}.{} s", seconds, nanoseconds / 100_000_000 % 10),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// The rate of an increase over a time span, per second.
pub(crate) fn per_second(increase: u64, nanoseconds: u64) -> u64 {
    let exact = u128::from(increase) * 1_000_000_000 / u128::from(nanoseconds.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_tail() {
        let mut table =
            Table::new(&[("node", Align::Left), ("n", Align::Right), ("x", Align::Left)]);
        table.row(["a".into(), "12,345".into(), "ä".into()]);
        table.row(["longer".into(), "1".into()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "node         n  x\na       12,345  ä\nlonger       1\n");
    }

    #[test]
    fn thousands_are_grouped() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(n), text);
        }
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn spans_have_a_fitting_unit() {
        for (seconds, text) in
            [(1, "1.0 s"), (61, "1 min 1 s"), (7260, "2 h 1 min"), (90_000, "1 d 1 h")]
        {
            assert_eq!(span(seconds * 1_000_000_000), text);
        }
        assert_eq!(span(1_580_000_000), "1.5 s");
    }

    #[test]
    fn rates_neither_divide_by_zero_nor_overflow() {
        assert_eq!(per_second(500, 500_000_000), 1000);
        assert_eq!(per_second(1, 0), 1_000_000_000);
        assert_eq!(per_second(u64::MAX, 1), u64::MAX);
    }
}
