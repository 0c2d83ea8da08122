//! Debian's Chromium with its driver. No server: tests of the page start the driver themselves.

use std::path::Path;

use super::ground::Ground;
use super::{Facts, Server, Up};
use crate::Result;

const NAME: &str = "chromium";
const BROWSER: &str = "/usr/bin/chromium";
const DRIVER: &str = "/usr/bin/chromedriver";

pub(crate) struct Chromium;

impl Server for Chromium {
    fn name(&self) -> &'static str {
        NAME
    }

    fn packages(&self) -> &'static [&'static str] {
        &["chromium", "chromium-driver"]
    }

    fn is_installed(&self) -> bool {
        Path::new(BROWSER).exists() && Path::new(DRIVER).exists()
    }

    fn start(&self, _ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let variables = vec![("PILLARBOX_TEST_CHROMEDRIVER", DRIVER.to_owned())];
        Ok(Up { facts: Facts { name: NAME, port: None, variables }, processes: Vec::new() })
    }
}
