//! A server of one test's own: one that it disturbs, or that is not as the others.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A server that ends with this.
pub(crate) struct Own {
    process: Child,
    /// It may still print: closed, it would end.
    _prints: BufReader<ChildStdout>,
    /// Where it is.
    pub(crate) url: String,
}

impl Own {
    /// Starts a server by its name in `cargo xtask services`.
    pub(crate) fn start(name: &str, variable: &str) -> Self {
        let program = std::env::var("PILLARBOX_TEST_SERVICES").expect(
            "PILLARBOX_TEST_SERVICES is not set: run the tests with `cargo xtask services mongodb -- …`",
        );
        let mut process = Command::new(program).arg(name).stdout(Stdio::piped()).spawn().unwrap();
        let mut prints = BufReader::new(process.stdout.take().unwrap());
        let begin = format!("export {variable}='");
        let found = prints
            .by_ref()
            .lines()
            .map(Result::unwrap)
            .find_map(|line| Some(line.strip_prefix(&begin)?.strip_suffix('\'')?.to_owned()));
        let Some(url) = found else {
            process.kill().unwrap();
            panic!("{name} did not start");
        };
        Self { process, _prints: prints, url }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // It stops its servers when it is told to end.
        let told = Command::new("kill").arg(self.process.id().to_string()).status();
        if !told.is_ok_and(|told| told.success()) {
            drop(self.process.kill());
        }
        drop(self.process.wait());
    }
}
