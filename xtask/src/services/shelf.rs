//! Programs that are fetched once and kept under `target`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::{Result, root};

/// Where the thing is. If it is not there yet, `make` puts it into the empty directory that it gets.
pub(super) fn once(shelf: &str, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let shelf = root()?.join("target").join(shelf);
    fs::create_dir_all(&shelf)?;
    let place = shelf.join(name);
    // Two runs at the same time make one: the second waits here and then finds it.
    let lock = File::create(shelf.join(format!("{name}.lock")))?;
    lock.lock()?;
    if !place.is_dir() {
        let workshop = shelf.join(format!("{name}.new"));
        if workshop.is_dir() {
            fs::remove_dir_all(&workshop)?;
        }
        fs::create_dir(&workshop)?;
        make(&workshop)?;
        fs::rename(&workshop, &place)?;
    }
    Ok(place)
}
