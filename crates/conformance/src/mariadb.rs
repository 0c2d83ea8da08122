//! A MariaDB that belongs to one test.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::OwnServer;

/// What it runs before it answers: one account may do everything, and one may use its own database only.
const ACCOUNTS: &str = "create database if not exists shop;\n\
    create user if not exists 'admin'@'%';\ngrant all on *.* to 'admin'@'%' with grant option;\n\
    create user if not exists 'app'@'%';\ngrant all on shop.* to 'app'@'%';\n";

/// A MariaDB from Debian's packages on a free port, with two accounts without a password.
pub struct OwnMariaDb {
    server: OwnServer,
}

impl OwnMariaDb {
    /// Makes its data in this directory and starts it with these options, each of which is one of `mariadbd`. Every
    /// start has them.
    ///
    /// # Panics
    /// When MariaDB is not installed, or does not start.
    pub async fn start(directory: &Path, options: &[&str]) -> Self {
        // Not as root, which the server refuses: then the directory must be open to the other account.
        fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
        let account = (fs::metadata(directory).unwrap().uid() == 0).then_some("--user=nobody");
        // Not the directory that all share: a server that starts deletes the temporary tables of the others there.
        let scratch = directory.join("scratch");
        fs::create_dir(&scratch).unwrap();
        fs::set_permissions(&scratch, Permissions::from_mode(0o777)).unwrap();
        let (data, scratch) = (directory.join("data"), option("tmpdir", &scratch));
        let mut make = Command::new("/usr/bin/mariadb-install-db");
        make.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]);
        let made = make.args(account).arg(&scratch).arg(option("datadir", &data)).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let accounts = directory.join("accounts.sql");
        fs::write(&accounts, ACCOUNTS).unwrap();
        let (log, options): (PathBuf, Vec<String>) =
            (data.join("log"), options.iter().map(|option| (*option).to_owned()).collect());
        let server = OwnServer::start(move |port| {
            move || {
                let mut server = Command::new("/usr/sbin/mariadbd");
                server.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve"]);
                server.args(["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M"]);
                server.args(account).arg(&scratch).args(&options).arg(format!("--port={port}"));
                server.arg(option("datadir", &data)).arg(option("socket", &data.join("s")));
                server.arg(option("init-file", &accounts)).arg(option("log-error", &log));
                server
            }
        });
        Self { server: server.await }
    }

    /// The URL of its database `shop` for `admin` or `app`.
    #[must_use]
    pub fn url(&self, account: &str) -> String {
        format!("mysql://{account}@127.0.0.1:{}/shop", self.server.port())
    }

    /// Kills it as a power cut would.
    pub fn kill(&self) {
        self.server.kill();
    }

    /// Starts it again on the data that it stored.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn restart(&self) {
        self.server.restart().await;
    }
}

fn option(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}
