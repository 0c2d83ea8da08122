//! MariaDB from Debian.

use std::path::Path;
use std::process::Command;

use super::{Facts, Ground, Node, ROLE, Server, Up, option};
use crate::Result;

pub(super) const PROGRAM: &str = "/usr/sbin/mariadbd";
/// Makes the system's own tables. It needs a program of the second package.
const MAKE: &str = "/usr/bin/mariadb-install-db";
const NEEDED: &str = "/usr/bin/my_print_defaults";

pub(crate) struct MariaDb;

impl Server for MariaDb {
    fn name(&self) -> &'static str {
        "mariadb"
    }

    fn role(&self) -> &'static str {
        ROLE
    }

    // The package mariadb-server would make a database of its own.
    fn packages(&self) -> &'static [&'static str] {
        &["mariadb-server-core", "mariadb-client-core"]
    }

    fn is_installed(&self) -> bool {
        is_installed()
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let node = Node::new(ground, self.name())?;
        make(ground, &node)?;
        let running = node.start(ground, self.name(), &mut program(ground, PROGRAM))?;
        Ok(Up { facts: super::facts(self.name(), &node), processes: vec![running] })
    }
}

pub(super) fn is_installed() -> bool {
    [PROGRAM, MAKE, NEEDED].iter().all(|program| Path::new(program).exists())
}

/// The server's program with what every start of it has.
pub(super) fn program(ground: &Ground, path: &str) -> Command {
    let mut program = ground.command(path, super::STOP);
    program.args(["--no-defaults", "--innodb-log-file-size=64M"]);
    program
}

/// Makes the data directory.
pub(super) fn make(ground: &Ground, node: &Node) -> Result<()> {
    let mut install = ground.command(MAKE, "KILL");
    install.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]);
    ground.run(install.arg(node.scratch()).arg(option("datadir", &node.data())))
}
