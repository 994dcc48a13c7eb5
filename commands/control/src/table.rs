//! Tables for people.

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
}
