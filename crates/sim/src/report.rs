//! What a failing world leaves for people: how to run it again, and its history.

use std::fmt::Write as _;
use std::path::Path;

use super::run::Run;
use super::shrink::shrink;

/// The seeds of a run: `PILLARBOX_SEED` names one, `PILLARBOX_SIM_SEEDS` says how many from 1 on.
///
/// # Errors
/// When a variable is set and is not a number.
pub fn seeds(default: u64) -> pillarbox_core::Result<std::ops::RangeInclusive<u64>> {
    if let Some(seed) = number("PILLARBOX_SEED")? {
        return Ok(seed..=seed);
    }
    Ok(1..=number("PILLARBOX_SIM_SEEDS")?.unwrap_or(default))
}

fn number(variable: &str) -> pillarbox_core::Result<Option<u64>> {
    match std::env::var(variable) {
        Ok(text) => match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => {
                Err(pillarbox_core::Error::invalid(format!("{variable} must be a number, not {text:?}")))
            }
        },
        Err(_) => Ok(None),
    }
}

/// Shrinks a failing world, writes both histories to `directory` and says how to run it again with `test`.
#[must_use]
pub fn failure_report(failed: Run, test: &str, directory: &Path) -> String {
    let seed = failed.plan.seed;
    let mut report = format!("{failed}\n");
    let mut keep = |name: String, run: &Run| {
        let path = directory.join(name);
        let written =
            std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, run.history.to_jsonl()));
        // Writing to a string cannot fail.
        let _ = match written {
            Ok(()) => writeln!(report, "history: {}", path.display()),
            Err(error) => writeln!(report, "the history could not be written to {}: {error}", path.display()),
        };
    };
    keep(format!("history-{seed}.jsonl"), &failed);
    if let Ok(shrunk) = shrink(failed) {
        keep(format!("history-{seed}-shrunk.jsonl"), &shrunk.run);
        let _ = writeln!(report, "the smallest of {} worlds that fails alike:\n{}", shrunk.tried, shrunk.run);
    }
    let _ = write!(report, "again: PILLARBOX_SEED={seed} cargo test -p pillarbox-sim --test it {test}");
    report
}
