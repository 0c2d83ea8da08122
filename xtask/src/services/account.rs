//! The account that servers run under: PostgreSQL and PgBouncer refuse root.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;

use crate::Result;

/// Accounts that servers may run under when we are root, the best first. Debian's `postgresql` makes the first,
/// every system has the second.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// An unprivileged account, or ourselves.
pub(crate) enum Account {
    Ourselves,
    Other { name: String, user_id: u32, group_id: u32 },
}

impl Account {
    /// Ourselves, unless we are root.
    pub(crate) fn unprivileged() -> Result<Self> {
        if !is_root()? {
            return Ok(Self::Ourselves);
        }
        let passwd = fs::read_to_string("/etc/passwd")?;
        CANDIDATES.iter().find_map(|name| passwd.lines().find_map(|line| parse(line, name))).ok_or_else(
            || {
                format!(
                "the servers refuse to run as root, and there is no account {}; create it, or run as another \
                 user", CANDIDATES.join(" or ")).into()
            },
        )
    }

    /// A command that runs `program` under this account, with a bare environment.
    ///
    /// `setpriv` becomes the program, so the process id is the program's own. The signal `on_our_death` ends it
    /// even when we are killed and can clean nothing up.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>, on_our_death: &str) -> Command {
        let mut command = Command::new("setpriv");
        if let Self::Other { name, group_id, .. } = self {
            command.args(["--reuid", name, "--regid", &group_id.to_string(), "--init-groups"]);
        }
        command.args(["--pdeathsig", on_our_death, "--"]).arg(program);
        // Nothing of the caller's PG* settings or locale may change what a test server is.
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("LC_ALL", "C");
        command.current_dir("/");
        command
    }

    /// Makes this account the owner of a path that we made.
    pub(crate) fn own(&self, path: &Path) -> Result<()> {
        if let Self::Other { user_id, group_id, .. } = self {
            chown(path, Some(*user_id), Some(*group_id))?;
        }
        Ok(())
    }
}

/// Whether this process is root.
pub(crate) fn is_root() -> Result<bool> {
    Ok(fs::metadata("/proc/self")?.uid() == 0)
}

fn parse(line: &str, wanted: &str) -> Option<Account> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| *name == wanted)?;
    let user_id = fields.nth(1)?.parse().ok()?;
    let group_id = fields.next()?.parse().ok()?;
    Some(Account::Other { name: name.to_owned(), user_id, group_id })
}
