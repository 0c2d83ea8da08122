//! Whether the file that is open is still the one at its path.

use std::path::{Path, PathBuf};

use pillarbox_core::{Error, ErrorKind, Result};

/// A file as it was when it was opened. SQLite does not notice in write-ahead mode that another one took its
/// place: a process that has the old one open would go on in a file that no other process can find.
#[derive(Debug)]
pub(crate) struct OpenFile {
    path: PathBuf,
    identity: Identity,
}

/// The device and the number of the file on it.
type Identity = (u64, u64);

impl OpenFile {
    /// The file at this path. `None` where there is none, as for a database in memory, or where files have no identity.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let path = std::path::absolute(path).ok()?;
        let identity = identity(&path)?;
        Some(Self { path, identity })
    }

    /// Refuses to go on if another file is there now, or none.
    pub(crate) fn check(&self) -> Result<()> {
        if identity(&self.path) == Some(self.identity) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "the database file {} was deleted or replaced while it was open. Nothing is written, because \
                 it would be lost. Put the file back, or restart this program to open the new file",
                self.path.display()
            ),
        ))
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Path) -> Option<Identity> {
    None
}
