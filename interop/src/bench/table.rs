//! The result as Markdown.

use std::fmt::Write;

use super::measure::Measured;

/// One reflector's line: its name, and what it needed or why there is nothing.
pub(crate) type Row = (String, Result<Measured, String>);

/// The table, with a line that divides the second of `ratio` by the first.
pub(crate) fn table(rows: &[Row], ratio: Option<(&Row, &Row)>) -> String {
    let mut text = String::from(HEAD);
    for (label, measured) in rows {
        match measured {
            Ok(measured) => line(&mut text, label, &columns(measured), ""),
            Err(reason) => line(&mut text, label, &[], reason),
        }
    }
    if let Some(((below, Ok(a)), (above, Ok(b)))) = ratio {
        let label = format!("{above} : {below}");
        let cells: Vec<String> = columns(b)
            .iter()
            .zip(columns(a))
            .map(|(b, a)| ratio_of(b.value, a.value))
            .collect();
        let _infallible = writeln!(text, "| *{label}* | {} |", cells.join(" | "));
    }
    text
}

/// What a reflector's threads used, the busiest first.
pub(crate) fn threads(measured: &Measured) -> String {
    let mut threads: Vec<(&String, &f64)> = measured.processor.threads.iter().collect();
    threads.sort_by(|a, b| b.1.total_cmp(a.1));
    let used: Vec<String> = threads
        .iter()
        .filter(|(_, secs)| **secs >= 0.05)
        .map(|(name, secs)| format!("{name} {secs:.2}"))
        .collect();
    used.join(", ")
}

struct Column {
    value: f64,
    digits: usize,
}

/// In the order of `HEAD`.
fn columns(measured: &Measured) -> [Column; 12] {
    let column = |value, digits| Column { value, digits };
    let millis = |duration: std::time::Duration| column(duration.as_secs_f64() * 1e3, 2);
    [
        column(measured.converged.as_secs_f64(), 2),
        column(measured.processor.total, 2),
        column(measured.peak_mib, 0),
        column(count(measured.octets) / 1e6, 0),
        column(count(measured.updates), 0),
        column(count(measured.duplicates), 0),
        column(count(measured.returned), 0),
        column(measured.joined.as_secs_f64(), 2),
        millis(measured.announced.median),
        millis(measured.announced.p99),
        millis(measured.withdrawn.median),
        millis(measured.withdrawn.p99),
    ]
}

fn line(text: &mut String, label: &str, columns: &[Column], reason: &str) {
    let mut cells: Vec<String> = columns
        .iter()
        .map(|column| format!("{:.*}", column.digits, column.value))
        .collect();
    if cells.is_empty() {
        cells = vec![String::from("–"); COLUMNS];
        cells[0] = format!("failed: {}", reason.replace('|', "/"));
    }
    let _infallible = writeln!(text, "| {label} | {} |", cells.join(" | "));
}

fn ratio_of(above: f64, below: f64) -> String {
    if below == 0.0 || above == 0.0 {
        "–".to_owned()
    } else {
        format!("{:.3}", above / below)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts stay far below 2^53, and are shown rounded"
)]
fn count(number: u64) -> f64 {
    number as f64
}

const COLUMNS: usize = 12;

const HEAD: &str = "\
| reflector | converged, s | CPU, s | peak RSS, MiB | received, MB | UPDATEs | duplicates | sent back | late joiner, s \
| announce p50, ms | p99 | withdraw p50, ms | p99 |
| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_has_a_cell_for_every_column() {
        for line in HEAD.lines() {
            assert_eq!(line.matches('|').count(), COLUMNS + 2);
        }
    }

    #[test]
    fn a_failure_has_a_line_of_its_own() {
        let rows = [("FRR".to_owned(), Err("time is up".to_owned()))];
        let text = table(&rows, None);
        assert!(text.ends_with(
            "| FRR | failed: time is up | – | – | – | – | – | – | – | – | – | – | – |\n"
        ));
    }
}
