//! Installs Debian's packages of servers and libraries that are missing.

use std::collections::BTreeSet;
use std::process::Command;

use super::Server;
use super::account::is_root;
use crate::Result;
use crate::exec::Executor;

/// The installation as a script, because root may have to be asked for it as a whole.
const SCRIPT: &str = include_str!("install.sh");

/// The packages of the libraries that diesel reaches servers through, and the program of each that the build asks. And
/// systemd's checker of units, for the unit that is shipped: most machines have it, a container may not.
const LIBRARIES: [(&str, &str); 3] =
    [("libpq-dev", "pg_config"), ("libmariadb-dev", "mariadb_config"), ("systemd", "systemd-analyze")];

/// Installs the servers that are missing.
pub(crate) fn missing(executor: &Executor, servers: &[&'static dyn Server]) -> Result<()> {
    install(executor, &|| {
        servers
            .iter()
            .filter(|server| !server.is_installed())
            .flat_map(|server| server.packages())
            .copied()
            .collect()
    })
}

/// Installs the libraries that all features need to be built.
pub(crate) fn libraries(executor: &Executor) -> Result<()> {
    let is_missing = |(_, program): &&(&str, &str)| {
        let version = Command::new(program).arg("--version").output();
        !version.is_ok_and(|output| output.status.success())
    };
    install(executor, &|| LIBRARIES.iter().filter(is_missing).map(|(package, _)| *package).collect())
}

/// Installs what is absent. Where everything is there, nothing is run and no privilege is needed.
fn install(executor: &Executor, absent: &dyn Fn() -> BTreeSet<&'static str>) -> Result<()> {
    let packages = Vec::from_iter(absent());
    if packages.is_empty() {
        return Ok(());
    }
    eprintln!("xtask: installing {}", packages.join(", "));
    let mut command = if is_root()? { Command::new("sh") } else { Command::new("sudo") };
    if !is_root()? {
        command.args(["-n", "sh"]);
    }
    let code = executor.run(command.args(["-c", SCRIPT, "install"]).args(&packages));
    match code {
        Ok(0) if absent().is_empty() => Ok(()),
        _ => {
            Err(format!("could not install them; run as root: apt-get install {}", packages.join(" ")).into())
        }
    }
}
