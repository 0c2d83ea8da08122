//! Who reached what, as Markdown.

use serde_json::Value;

use super::machine::Machine;
use super::options::Options;
use super::peers::{Language, Peer};
use super::run::Done;
use super::stats::median;
use crate::Result;

/// Longest reason in a table.
const REASON_MAX: usize = 160;

/// One of them.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) jobs: u32,
    pub(crate) setting: String,
    /// Where the rate of one of ours is in the JSON of a bench.
    pub(crate) pointer: Option<&'static str>,
    /// One a round.
    pub(crate) rates: Vec<f64>,
    /// Of the raw classic loop in the same rounds.
    pub(crate) to_classic: Option<f64>,
    pub(crate) standing: Standing,
}

/// Whether it can be in the table.
pub(crate) enum Standing {
    Ran,
    Failed(String),
}

impl Row {
    pub(crate) fn of_ours(name: &str, pointer: &'static str, setting: &str, jobs: u32) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let setting = setting.to_owned();
        let (name, pointer) = (name.to_owned(), Some(pointer));
        Self {
            name,
            version,
            jobs,
            setting,
            pointer,
            rates: vec![],
            to_classic: None,
            standing: Standing::Ran,
        }
    }

    pub(crate) fn of_peer(peer: &Peer, options: &Options) -> Self {
        let rounds = if peer.rounds.has(options.repeat) { "" } else { "; first round only" };
        Self {
            name: peer.name.to_owned(),
            version: String::new(),
            jobs: options.jobs(peer.jobs),
            setting: format!("{}; {}{}", language(peer.language), peer.setting, rounds),
            pointer: None,
            rates: Vec::new(),
            to_classic: None,
            standing: Standing::Ran,
        }
    }

    /// Whether it is the row of this peer.
    pub(crate) fn is(&self, peer: &Peer) -> bool {
        self.pointer.is_none() && self.name == peer.name
    }

    /// A round of ours, out of all that was measured in it.
    pub(crate) fn add_ours(&mut self, drained: &Value) {
        if let Some(pointer) = self.pointer {
            match drained.pointer(pointer).and_then(Value::as_f64) {
                Some(rate) => self.rates.push(rate),
                None => self.fails("it was not measured"),
            }
        }
    }

    /// A round of a peer.
    fn add(&mut self, done: Done) {
        self.rates.push(done.per_second);
        self.version = done.version;
    }

    /// The same, or why there is none. People are told at once.
    pub(crate) fn take(&mut self, round: Result<Done>) {
        match round {
            Ok(done) => self.add(done),
            Err(error) => self.fails(&error.to_string()),
        }
        match &self.standing {
            Standing::Ran => eprintln!("bench: {}: {:.0} a second", self.name, self.last()),
            Standing::Failed(reason) => eprintln!("bench: {}: {reason}", self.name),
        }
    }

    /// It could not be run, at least once: its figures would not be of the same rounds.
    pub(crate) fn fails(&mut self, reason: &str) {
        let line = reason.lines().next().unwrap_or_default().replace('|', "/");
        self.standing = Standing::Failed(line.chars().take(REASON_MAX).collect());
        self.rates.clear();
    }

    /// The rate of the last round.
    fn last(&self) -> f64 {
        self.rates.last().copied().unwrap_or(0.0)
    }

    /// What to show, if it ran.
    pub(crate) fn rate(&self) -> Option<f64> {
        matches!(self.standing, Standing::Ran).then(|| median(&self.rates)).filter(|rate| *rate > 0.0)
    }
}

fn language(language: Language) -> &'static str {
    match language {
        Language::Node => "Node",
        Language::Python => "Python",
        Language::Rust | Language::RustMysql => "Rust",
    }
}

/// The table, the fastest first, with how it came about. What did not run stands below with its reason.
pub(crate) fn markdown(rows: &[Row], machine: &Machine, options: &Options) -> String {
    let mut text = format!(
        "`cargo xtask bench`, {} Medians of {}; 200-byte payloads of ours, small ones of peers; no-op work, drained \
         by one process.\n\n",
        machine.describe(),
        options.rounds(),
    );
    text.push_str("| | version | jobs | a second | lowest to highest | of classic | set up |\n");
    text.push_str("|---|---|--:|--:|--:|--:|---|\n");
    for row in rows {
        let Some(rate) = row.rate() else { continue };
        let lowest = row.rates.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = row.rates.iter().copied().fold(0.0, f64::max);
        let ratio = row.to_classic.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} to {} | {ratio} | {} |\n",
            row.name,
            row.version,
            thousands(row.jobs.into()),
            thousands(rate),
            thousands(lowest),
            thousands(highest),
            row.setting,
        ));
    }
    for row in rows {
        if let Standing::Failed(reason) = &row.standing {
            let jobs = thousands(row.jobs.into());
            text.push_str(&format!("| {} | | {jobs} | – | | | {}; {reason} |\n", row.name, row.setting));
        }
    }
    text
}

/// A number as people read it.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bench::peers;
    use crate::bench::stats::compare;

    /// Two that ran and one that did not.
    pub(crate) fn rows() -> Vec<Row> {
        let options = crate::bench::parse(&[]).unwrap();
        let mut lanes = Row::of_ours("Pillarbox, lanes", "/x", "order = \"key\"", 50_000);
        lanes.rates = vec![90_000.0, 81_234.4, 70_000.0];
        let mut classic = Row::of_ours("raw classic loop", crate::bench::ours::CLASSIC, "plain SQL", 50_000);
        classic.rates = vec![20_000.0, 20_000.0, 20_000.0];
        let mut peer = Row::of_peer(&peers::ALL[0], &options);
        peer.fails("could not be installed: cargo failed | with 101\nand more");
        let mut rows = vec![peer, classic, lanes];
        compare(&mut rows);
        rows
    }

    #[test]
    fn the_fastest_is_first_and_whoever_failed_is_named_with_the_reason() {
        let options = crate::bench::parse(&[]).unwrap();
        let machine = Machine {
            date: "2026-01-02".into(),
            cores: 2,
            servers: "PostgreSQL 15.9".into(),
            loads: vec![1.25, 3.0],
        };
        let text = markdown(&rows(), &machine, &options);
        assert!(text.starts_with("`cargo xtask bench`, 2026-01-02, 2 cores, PostgreSQL 15.9; "), "{text}");
        assert!(text.contains("at the end: 1.2, 3.0. Medians of 3 rounds"), "{text}");
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("|---")).skip(1).collect();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            lines[0],
            format!(
                "| Pillarbox, lanes | {version} | 50,000 | 81,234 | 70,000 to 90,000 | 4.06 | order = \"key\" |"
            )
        );
        assert!(
            lines[1].starts_with("| raw classic loop |") && lines[1].contains("| 1.00 |"),
            "{}",
            lines[1]
        );
        assert!(lines[2].starts_with("| graphile_worker | | 100,000 | – |"), "{}", lines[2]);
        assert!(lines[2].ends_with("could not be installed: cargo failed / with 101 |"), "{}", lines[2]);
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn who_runs_in_one_round_only_says_so() {
        let options = crate::bench::parse(&[]).unwrap();
        let settings = peers::ALL.map(|peer| Row::of_peer(&peer, &options).setting);
        let once: Vec<_> =
            settings.iter().filter(|setting| setting.ends_with("; first round only")).collect();
        assert_eq!(once.len(), 1, "{settings:?}");
        let one = crate::bench::parse(&["--repeat".into(), "1".into()]).unwrap();
        assert!(peers::ALL.iter().all(|peer| !Row::of_peer(peer, &one).setting.contains("only")));
    }

    #[test]
    fn numbers_are_grouped() {
        let shown = [0.4, 12.0, 123.0, 1234.0, 123_456.0, 1_234_567.0].map(thousands);
        assert_eq!(shown, ["0", "12", "123", "1,234", "123,456", "1,234,567"]);
    }
}
