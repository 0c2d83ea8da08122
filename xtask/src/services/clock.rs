//! A PostgreSQL whose clock a test sets, by a library that shows it another time.

use std::fs;
use std::path::{Path, PathBuf};

use super::ground::Ground;
use super::postgres;
use super::{Facts, Server, Up};
use crate::Result;

/// Where Debian puts libraries, one directory for each architecture.
const LIBRARIES: &str = "/usr/lib";

/// Its clock is off by what a file says.
pub(crate) struct Clock;

impl Server for Clock {
    fn name(&self) -> &'static str {
        "postgres-clock"
    }

    // PostgreSQL is there: it is what every run of the tests begins with.
    fn packages(&self) -> &'static [&'static str] {
        &["libfaketime"]
    }

    fn is_installed(&self) -> bool {
        library().is_some()
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let port = ground.port()?;
        let directory = ground.directory(self.name(), port)?;
        let offset = directory.join("clock");
        ground.write(&offset, "+0")?;
        let programs = postgres::DEBIAN.programs(ground, &directory)?.under(variables(&offset)?);
        let running = postgres::start(ground, self.name(), &programs, &directory, port)?;
        let variables = vec![
            ("PILLARBOX_TEST_CLOCK_POSTGRES", postgres::url(port)),
            ("PILLARBOX_TEST_CLOCK", offset.display().to_string()),
        ];
        Ok(Up { facts: Facts { name: self.name(), port: Some(port), variables }, processes: vec![running] })
    }
}

/// The time of the file at every look, and nothing else than the time of day.
fn variables(offset: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    Ok(vec![
        ("LD_PRELOAD", library().ok_or("no libfaketime")?),
        ("FAKETIME_TIMESTAMP_FILE", offset.to_owned()),
        ("FAKETIME_NO_CACHE", "1".into()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
    ])
}

fn library() -> Option<PathBuf> {
    let architectures = fs::read_dir(LIBRARIES).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    architectures.map(|path| path.join("faketime/libfaketime.so.1")).find(|path| path.exists())
}
