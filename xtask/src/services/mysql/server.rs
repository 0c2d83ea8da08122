//! MySQL from Debian's unstable release, unpacked and run with that release's own libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Facts, Ground, Node, ROLE, Server, Up, option, shelf};
use crate::Result;

/// Fetches packages of another release.
const SCRIPT: &str = include_str!("fetch.sh");
const RELEASE: &str = "sid";
const PACKAGE: &str = "mysql-server-core";
const ARCHITECTURE: &str = "x86_64";

pub(crate) struct MySql;

impl Server for MySql {
    fn name(&self) -> &'static str {
        "mysql"
    }

    fn role(&self) -> &'static str {
        ROLE
    }

    // Nothing is installed for it.
    fn packages(&self) -> &'static [&'static str] {
        &[]
    }

    fn is_installed(&self) -> bool {
        true
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let node = Node::new(ground, self.name())?;
        let root = put(ground, &node.directory)?;
        let mut initialize = program(ground, &root);
        initialize.arg("--initialize-insecure").arg(node.scratch());
        initialize.arg(option("datadir", &node.data()));
        ground.run(&mut initialize)?;
        let mut server = program(ground, &root);
        server.args(["--mysqlx=OFF", "--skip-log-bin", "--table-open-cache=400"]);
        let running = node.start(ground, self.name(), &mut server)?;
        Ok(Up { facts: super::facts(self.name(), &node), processes: vec![running] })
    }
}

/// Puts the programs and their libraries where the servers' account can run them.
fn put(ground: &Ground, directory: &Path) -> Result<PathBuf> {
    if std::env::consts::ARCH != ARCHITECTURE {
        return Err(format!("MySQL can be had for {ARCHITECTURE} only").into());
    }
    let unpacked = shelf::once("mysql", RELEASE, |workshop| {
        eprintln!("xtask: fetching MySQL (once)");
        let mut fetch = Command::new("sh");
        ground.run(fetch.args(["-c", SCRIPT, "fetch", RELEASE, PACKAGE]).current_dir(workshop))
    })
    .map_err(|error| format!("MySQL could not be fetched: {error}"))?;
    let root = directory.join("root");
    ground.run(Command::new("cp").arg("-r").arg(unpacked).arg(&root))?;
    Ok(root)
}

/// The server's program under its own loader: this machine's libraries are too old for it.
fn program(ground: &Ground, root: &Path) -> Command {
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let mut program = ground.command(libraries.join("ld-linux-x86-64.so.2"), super::STOP);
    program.arg("--library-path").arg(&libraries).arg(root.join("usr/sbin/mysqld")).arg("--no-defaults");
    program.arg(option("basedir", &root.join("usr")));
    program.arg(option("lc-messages-dir", &root.join("usr/share/mysql")));
    program.arg(option("plugin-dir", &root.join("usr/lib/mysql/plugin")));
    program.args(["--secure-file-priv=NULL", "--innodb-redo-log-capacity=128M"]);
    program
}
