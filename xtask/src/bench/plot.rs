//! Who reached what, as a picture: plain SVG, readable on light and on dark pages.

use std::fmt::Write;

use super::table::{Row, thousands};

const WIDTH: u32 = 760;
const LABEL: u32 = 230;
const ROOM_FOR_NUMBERS: u32 = 80;
const LINE: u32 = 24;
const BAR: u32 = 14;
const TOP: u32 = 40;

/// Bars, the longest first; whoever did not run is left to the table.
pub(crate) fn svg(rows: &[Row]) -> String {
    let ran: Vec<(&Row, f64)> = rows.iter().filter_map(|row| Some((row, row.rate()?))).collect();
    let most = ran.iter().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let height = TOP + LINE * u32::try_from(ran.len()).unwrap_or(0) + 10;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"Jobs drained a second\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <style>\n\
         text {{ fill: #1f2328 }} .ours {{ fill: #2563eb }} .raw {{ fill: #8b949e }} .peer {{ fill: #c2772b }}\n\
         @media (prefers-color-scheme: dark) {{\n\
         text {{ fill: #e6edf3 }} .ours {{ fill: #6ea8fe }} .raw {{ fill: #7d8590 }} .peer {{ fill: #e0a060 }}\n\
         }}\n\
         </style>\n\
         <text x=\"10\" y=\"22\" font-weight=\"600\">No-op jobs drained a second, one process, one PostgreSQL</text>\n"
    );
    for (index, (row, rate)) in ran.iter().enumerate() {
        let y = TOP + LINE * u32::try_from(index).unwrap_or(0);
        let length = rate / most * f64::from(WIDTH - LABEL - ROOM_FOR_NUMBERS);
        let (label, middle, number) = (LABEL - 10, y + BAR - 2, f64::from(LABEL) + length + 6.0);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "<text x=\"{label}\" y=\"{middle}\" text-anchor=\"end\">{}</text>\n\
             <rect class=\"{}\" x=\"{LABEL}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\"/>\n\
             <text x=\"{number:.1}\" y=\"{middle}\">{}</text>\n",
            escaped(&row.name),
            class(row),
            thousands(*rate)
        );
    }
    text.push_str("</svg>\n");
    text
}

fn class(row: &Row) -> &'static str {
    match row.pointer {
        None => "peer",
        Some(_) if row.name.starts_with("raw") => "raw",
        Some(_) => "ours",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::table::tests::rows;

    #[test]
    fn bars_are_as_long_as_rates_and_whoever_failed_has_none() {
        let picture = svg(&rows());
        assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"), "{picture}");
        assert!(picture.contains("prefers-color-scheme: dark"));
        assert_eq!(picture.matches("<rect").count(), 2);
        assert!(picture.contains("<rect class=\"ours\" x=\"230\" y=\"40\" width=\"450.0\""), "{picture}");
        assert!(picture.contains("<rect class=\"raw\" x=\"230\" y=\"64\" width=\"110.8\""), "{picture}");
        assert!(picture.contains(">81,234</text>") && !picture.contains("graphile_worker"), "{picture}");
    }

    #[test]
    fn names_cannot_break_the_picture() {
        assert_eq!(escaped("a<b & c>"), "a&lt;b &amp; c&gt;");
    }
}
