//! From OpenMetrics to the older text of Prometheus.

/// What OpenMetrics appends to the name of a counter's samples, and the older text has in its descriptions too.
const TOTAL: &str = "_total";
/// The same for metrics that only have labels.
const INFO: &str = "_info";

/// The same metrics without exemplars, units and the mark of the end, with the types that the older text knows.
pub(crate) fn from_openmetrics(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        match description(line) {
            Some((word, name, rest)) => {
                let kind = type_of(text, name);
                let (suffix, rest) = match (kind, word) {
                    (Some("counter"), _) => (TOTAL, rest),
                    (Some("info"), "TYPE") => (INFO, "gauge"),
                    (Some("info"), _) => (INFO, rest),
                    _ => ("", rest),
                };
                plain.push_str(&format!("# {word} {name}{suffix} {rest}"));
            }
            // A label may have any text in it, so an exemplar is what follows the value.
            None => plain.push_str(without_exemplar(line)),
        }
        plain.push('\n');
    }
    plain
}

/// `HELP` or `TYPE`, the name, and what is said of it.
fn description(line: &str) -> Option<(&str, &str, &str)> {
    let mut parts = line.strip_prefix("# ")?.splitn(3, ' ');
    Some((parts.next()?, parts.next()?, parts.next()?))
}

fn type_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| match description(line) {
        Some(("TYPE", of, kind)) if of == name => Some(kind),
        _ => None,
    })
}

fn without_exemplar(line: &str) -> &str {
    match line.rfind(" # {") {
        Some(at) if at > line.find("} ").unwrap_or(usize::MAX) => line.get(..at).unwrap_or(line),
        _ => line,
    }
}
