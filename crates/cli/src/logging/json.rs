//! A line of the log as one JSON object.

use std::fmt::{Debug, Display};

use pillarbox_core::escape_json;
use pillarbox_core::port::Clock;
use pillarbox_host::SystemClock;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};

/// The line of an event, with its fields beside the message.
pub(super) fn of_event(event: &tracing::Event<'_>) -> String {
    let mut fields = Fields::default();
    event.record(&mut fields);
    let metadata = event.metadata();
    let mut line = head(metadata.level().as_str(), fields.message);
    line.insert("target".into(), metadata.target().into());
    for (name, value) in fields.others {
        // A field cannot take the place of what every line has.
        line.entry(name).or_insert(value);
    }
    written(line)
}

/// The line of what a command tells itself.
pub(crate) fn line(level: &str, message: impl Display) -> String {
    written(head(level, message.to_string()))
}

fn head(level: &str, message: String) -> Map<String, Value> {
    let mut line = Map::new();
    line.insert("time".into(), SystemClock.now().to_string().into());
    line.insert("level".into(), level.to_ascii_lowercase().into());
    line.insert("message".into(), message.into());
    line
}

fn written(line: Map<String, Value>) -> String {
    escape_json(&Value::Object(line).to_string()).to_string()
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(String, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        self.others.push((field.name().to_owned(), value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" { self.message = text } else { self.put(field, text.into()) }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = value.to_owned()
        } else {
            self.put(field, value.into())
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_object_whatever_is_in_the_message() {
        let line = line("WARN", "two\nlines \"quoted\" \u{202e}");
        assert_eq!(line.lines().count(), 1);
        assert!(!line.contains('\u{202e}'), "{line}");
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (value["level"].as_str(), value["message"].as_str()),
            (Some("warn"), Some("two\nlines \"quoted\" \u{202e}"))
        );
        assert!(value["time"].as_str().unwrap().ends_with('Z'));
    }
}
