//! What it ran on, and how busy that was.

use std::fs;
use std::process::Command;

use super::run::Runner;
use crate::Result;

/// The machine of a run.
pub(crate) struct Machine {
    /// The day.
    pub(crate) date: String,
    pub(crate) cores: usize,
    /// The servers, and how durable their commits are.
    pub(crate) servers: String,
    /// Of the last minute, at the beginning of each part and at the end.
    pub(crate) loads: Vec<f64>,
}

impl Machine {
    /// One with the PostgreSQL that this runs on.
    pub(crate) fn look(runner: &Runner<'_>) -> Result<Self> {
        let version = runner.ask("show server_version")?;
        let version = version.split(' ').next().unwrap_or_default();
        Self::of(format!("PostgreSQL {version} with `fsync` and `synchronous_commit` on"))
    }

    pub(crate) fn of(servers: String) -> Result<Self> {
        let date = Command::new("date").args(["-u", "+%Y-%m-%d"]).output()?;
        Ok(Self {
            date: String::from_utf8_lossy(&date.stdout).trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            servers,
            loads: Vec::new(),
        })
    }

    /// Notes the load, and returns it.
    pub(crate) fn note_load(&mut self) -> f64 {
        let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
        self.loads.push(load);
        load
    }

    /// One line for people.
    pub(crate) fn describe(&self) -> String {
        let loads: Vec<String> = self.loads.iter().map(|load| format!("{load:.1}")).collect();
        format!(
            "{}, {} cores, {}; load at the beginning of each part and at the end: {}.",
            self.date,
            self.cores,
            self.servers,
            loads.join(", ")
        )
    }
}
