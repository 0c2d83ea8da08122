//! What was logged, line by line.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// Everything that this thread logs from here on, for as long as it lives.
pub struct Log {
    lines: Lines,
    _guard: DefaultGuard,
}

type Lines = Arc<Mutex<Vec<(Level, String)>>>;

impl Log {
    pub fn start() -> Self {
        let lines = Lines::default();
        let _guard = tracing::subscriber::set_default(Collector(Arc::clone(&lines)));
        Self { lines, _guard }
    }

    /// The lines of this level that have this in them.
    pub fn lines(&self, level: Level, with: &str) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        lines
            .iter()
            .filter(|line| line.0 == level && line.1.contains(with))
            .map(|line| line.1.clone())
            .collect()
    }

    /// Whether this was logged at all.
    pub fn has(&self, text: &str) -> bool {
        self.lines.lock().unwrap().iter().any(|line| line.1.contains(text))
    }
}

struct Collector(Lines);

struct LogText(String);

impl Visit for LogText {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.0, "{}={value} ", field.name()).unwrap();
    }
}

impl Subscriber for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = LogText(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push((*event.metadata().level(), line.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
