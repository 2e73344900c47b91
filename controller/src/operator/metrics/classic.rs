//! The page for whoever does not ask for OpenMetrics: the older text format of Prometheus, which `curl` shows and `promtool`
//! checks. Knows lines, and no metric.

/// Rewrites a page in the text format 0.0.4: a counter's `# HELP` and `# TYPE` have the name of its samples there.
pub(super) fn written(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        if line.starts_with("# UNIT ") || line == "# EOF" {
            continue;
        }
        if line.starts_with("# HELP ") {
            help = Some(line);
            continue;
        }
        let counter = line.strip_prefix("# TYPE ");
        let counter = counter.and_then(|rest| rest.strip_suffix(" counter"));
        for line in help.take().into_iter().chain([line]) {
            match counter.and_then(|name| Some((name, line.split_once(name)?))) {
                Some((name, (before, after))) => {
                    text.extend([before, name, "_total", after, "\n"]);
                }
                None => text.extend([line, "\n"]),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_counter_is_declared_by_the_name_of_its_samples() {
        let open_metrics = "\
# HELP weft_x_bytes Octets of weft_x_bytes.
# TYPE weft_x_bytes counter
# UNIT weft_x_bytes bytes
weft_x_bytes_total{peer=\"192.0.2.1\"} 7
# HELP weft_y Things.
# TYPE weft_y gauge
weft_y 1
# EOF
";
        let classic = "\
# HELP weft_x_bytes_total Octets of weft_x_bytes.
# TYPE weft_x_bytes_total counter
weft_x_bytes_total{peer=\"192.0.2.1\"} 7
# HELP weft_y Things.
# TYPE weft_y gauge
weft_y 1
";
        assert_eq!(super::written(open_metrics), classic);
    }
}
