//! Columns for people.

/// `1 flow`, `2 flows`.
pub(crate) fn count(n: usize, what: &str) -> String {
    let plural = match (n, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        _ => "s",
    };
    format!("{n} {what}{plural}")
}

/// Rows under a heading, each column as wide as it has to be; numbers stand right.
pub(super) fn columns(heading: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count());
        cells.chain([heading[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let right = |column: usize| {
        let number = |c: &String| c.chars().all(|c| c.is_ascii_digit() || c == '.');
        rows.iter().filter_map(|r| r.get(column)).all(number)
    };
    let right: Vec<bool> = (0..heading.len()).map(right).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut out = String::new();
        for (column, cell) in cells.enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            let (before, after) =
                if right[column] { (pad.as_str(), "") } else { ("", pad.as_str()) };
            out.push_str(&format!("{before}{cell}{after}  "));
        }
        out.trim_end().to_string() + "\n"
    };
    let mut out = line(&mut heading.iter().copied());
    for row in rows {
        out.push_str(&line(&mut row.iter().map(|c| c.as_str())));
    }
    out
}
