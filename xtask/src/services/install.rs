//! Installs Debian's packages of servers that are missing.

use std::collections::BTreeSet;
use std::process::Command;

use super::Server;
use super::account::is_root;
use crate::Result;
use crate::exec::Executor;

/// The installation as a script, because root may have to be asked for it as a whole.
const SCRIPT: &str = include_str!("install.sh");

/// Installs what is missing. Where everything is there, nothing is run and no privilege is needed.
pub(crate) fn missing(executor: &Executor, servers: &[&'static dyn Server]) -> Result<()> {
    let absent =
        || servers.iter().filter(|server| !server.is_installed()).flat_map(|server| server.packages());
    let packages: BTreeSet<&str> = absent().copied().collect();
    if packages.is_empty() {
        return Ok(());
    }
    let packages = Vec::from_iter(packages);
    eprintln!("xtask: installing {}", packages.join(", "));
    let mut command = if is_root()? { Command::new("sh") } else { Command::new("sudo") };
    if !is_root()? {
        command.args(["-n", "sh"]);
    }
    let code = executor.run(command.args(["-c", SCRIPT, "install"]).args(&packages));
    match code {
        Ok(0) if absent().next().is_none() => Ok(()),
        _ => {
            Err(format!("could not install them; run as root: apt-get install {}", packages.join(" ")).into())
        }
    }
}
