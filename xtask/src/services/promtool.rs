//! Prometheus' own checker of metrics and rules.
//!
//! No server, as [`python`](super::python) is none: tests run the program.

use std::process::{Command, Stdio};

use super::ground::Ground;
use super::{Facts, Server, Up};
use crate::Result;

pub(crate) const NAME: &str = "promtool";

const PACKAGES: &[&str] = &["prometheus"];

pub(crate) struct Promtool;

impl Server for Promtool {
    fn name(&self) -> &'static str {
        NAME
    }

    fn packages(&self) -> &'static [&'static str] {
        PACKAGES
    }

    fn is_installed(&self) -> bool {
        let mut question = Command::new(NAME);
        question.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        question.status().is_ok_and(|status| status.success())
    }

    fn start(&self, _ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let variables = vec![("PILLARBOX_TEST_PROMTOOL", NAME.to_owned())];
        Ok(Up { facts: Facts { name: NAME, port: None, variables }, processes: Vec::new() })
    }
}
