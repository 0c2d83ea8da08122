//! All processes below one process, as `/proc` tells them.

use std::collections::BTreeMap;
use std::fs;

use super::wait_until;

/// Processes by id, each with the time of its start: a number may be used again by somebody else.
pub(crate) struct Family(BTreeMap<u32, String>);

struct Process {
    state: String,
    parent: u32,
    started: String,
}

impl Family {
    /// The process's children, their children, and so on.
    pub(crate) fn of(id: u32) -> Self {
        let all: BTreeMap<u32, Process> = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
            .filter_map(|id| Some((id, read(id)?)))
            .collect();
        let mut found = BTreeMap::new();
        let mut parents = vec![id];
        while let Some(parent) = parents.pop() {
            for (id, process) in all.iter().filter(|(_, process)| process.parent == parent) {
                found.insert(*id, process.started.clone());
                parents.push(*id);
            }
        }
        assert!(found.len() > 8, "each server is at least one process");
        Self(found)
    }

    /// Waits until none of them runs. One that ended and that nobody has asked about yet does not run.
    pub(crate) fn assert_gone(&self) {
        wait_until(|| self.0.iter().all(|(id, started)| !runs(*id, started)));
    }
}

fn runs(id: u32, started: &str) -> bool {
    read(id).is_some_and(|process| process.started == started && process.state != "Z")
}

fn read(id: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name is in parentheses and may contain anything; what follows the last one is words.
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Process {
        state: words.first()?.to_string(),
        parent: words.get(1)?.parse().ok()?,
        started: words.get(19)?.to_string(),
    })
}
