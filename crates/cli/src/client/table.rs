//! Tables as kubectl prints them: columns three spaces apart, no lines, nothing at the end of a line.

use std::fmt::Write as _;

/// A table in the making.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()] }
    }

    /// Adds a row. What others wrote may hold anything; it must not speak to the terminal.
    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| plain(cell.as_ref())).collect());
    }

    /// True when there is nothing under the headings.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// The text, each line after `indent`.
    pub(crate) fn text(&self, indent: &str) -> String {
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = indent.to_owned();
            for (cell, width) in row.iter().zip(&widths) {
                // Writing to a string cannot fail.
                let _ = write!(line, "{cell:<width$}   ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Text on one line, without control characters.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_where_they_end() {
        let mut table = Table::new(&["NAME", "WHY"]);
        table.row(["a-long-name", ""]);
        table.row(["b", "two\nlines \u{1b}[31mred"]);
        assert_eq!(
            table.text("  "),
            "  NAME          WHY\n  a-long-name\n  b             two lines  [31mred\n"
        );
    }
}
