//! Servers of a test's own, by their names in `cargo xtask services`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::home::{Running, eventually};

/// Servers that end with this.
pub(crate) struct Services {
    process: Option<Running>,
    variables: BTreeMap<String, String>,
}

impl Services {
    pub(crate) fn start(name: &str) -> Self {
        let program = std::env::var("PILLARBOX_TEST_SERVICES").expect(
            "PILLARBOX_TEST_SERVICES is not set: run this through `cargo xtask services -- cargo test`",
        );
        let mut command = Command::new(program);
        command.arg(name).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut services = Self { process: Some(Running::of(child)), variables: BTreeMap::new() };
        for line in lines.map_while(Result::ok) {
            let Some((variable, value)) = line.strip_prefix("export ").and_then(|line| line.split_once('='))
            else {
                continue;
            };
            services.variables.insert(variable.to_owned(), value.trim_matches('\'').to_owned());
            // The last line: who stops listening before it ends the servers.
            if variable == "PILLARBOX_TEST_SERVICES" {
                return services;
            }
        }
        panic!("{name} did not start: it says why above");
    }

    /// What a server says of itself.
    pub(crate) fn variable(&self, name: &str) -> String {
        self.variables.get(name).unwrap_or_else(|| panic!("{name} is not told")).clone()
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        // Not killed: it takes the servers' directory away.
        let Some(mut process) = self.process.take() else { return };
        process.signal("TERM");
        if std::thread::panicking() {
            std::mem::forget(process);
        } else {
            eventually("the servers end", || process.has_ended());
        }
    }
}
