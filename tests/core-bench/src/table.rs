//! Tables of text: a title, columns as wide as they need, remarks below.

use std::fmt;

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    title: String,
    rows: Vec<Vec<String>>,
    remarks: Vec<String>,
}

impl Table {
    /// Returns a table with its title and the words above its columns.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            rows: vec![columns.iter().map(|column| (*column).to_owned()).collect()],
            remarks: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a sentence below the table.
    pub fn remark(&mut self, words: impl Into<String>) {
        self.remarks.push(words.into());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        for row in &self.rows {
            for (column, cell) in row.iter().enumerate() {
                let width = self.width(column);
                // The first column names the row; the others are numbers.
                match column {
                    0 => write!(f, "  {cell:<width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        self.remarks
            .iter()
            .try_for_each(|remark| writeln!(f, "  {remark}"))
    }
}

/// Returns a figure with as many digits as it is good for.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        small if small < 10.0 => format!("{value:.2}"),
        middle if middle < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Returns how often `base` goes into `value`, as `1.23x`.
#[must_use]
pub fn ratio(value: f64, base: f64) -> String {
    format!("{:.2}x", value / base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new("edit: ns", &["trace", "é", "ratio"]);
        table.row(["a".into(), figure(123.4), ratio(3.0, 2.0)]);
        table.remark("quiet");
        let text = "edit: ns\n  trace    é  ratio\n  a      123  1.50x\n  quiet\n";
        assert_eq!(table.to_string(), text);
    }
}
