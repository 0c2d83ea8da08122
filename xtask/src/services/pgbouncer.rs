//! PgBouncer in transaction mode in front of PostgreSQL: the pooler that most production databases stand behind.

use std::path::Path;
use std::process::Command;

use super::ground::{Ground, succeeds};
use super::postgres::{self, USER};
use super::{Facts, Server, Up};
use crate::Result;
use crate::process::{Kind, Running};

const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// It keeps nothing, so it is killed: which gentler signal ends it at once has changed between its versions.
const KIND: Kind = Kind { name: "pgbouncer", stop: "KILL" };

/// The first version (1.x) with support for prepared statements, which [`ini`] then turns off.
const PREPARED_STATEMENTS_SINCE: u32 = 21;

pub(crate) struct PgBouncer;

impl Server for PgBouncer {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn packages(&self) -> &'static [&'static str] {
        &["pgbouncer"]
    }

    fn is_installed(&self) -> bool {
        Path::new(PROGRAM).exists()
    }

    fn needs(&self) -> &'static [&'static str] {
        &[postgres::ROLE]
    }

    fn start(&self, ground: &Ground, before: &[Facts]) -> Result<Up> {
        let behind = before
            .iter()
            .find(|server| server.name == postgres::ROLE)
            .and_then(|server| server.port)
            .ok_or("pgbouncer needs postgres before it")?;
        let port = ground.port()?;
        let directory = ground.directory(KIND.name, port)?;
        let users = directory.join("users.txt");
        ground.write(&users, &format!("\"{USER}\" \"\"\n"))?;
        let configuration = directory.join("pgbouncer.ini");
        let mut text = ini(port, behind, &directory.display().to_string());
        if minor_version()? >= PREPARED_STATEMENTS_SINCE {
            text.push_str("max_prepared_statements = 0\n");
        }
        ground.write(&configuration, &text)?;

        let mut server = ground.command(PROGRAM, KIND.stop);
        let running = Running::start(KIND, server.arg(&configuration), &directory.join("log"))?;
        let mut ask = ground.command(postgres::programs()?.join("pg_isready"), "KILL");
        ask.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--username", USER, "--dbname", USER]);
        ground.until_ready(&running, succeeds(ask))?;
        let variables = vec![("PILLARBOX_TEST_PGBOUNCER", postgres::url(port))];
        Ok(Up { facts: Facts { name: KIND.name, port: Some(port), variables }, processes: vec![running] })
    }
}

/// The harsh case on purpose: transaction pooling, no startup parameter is forgiven, and no prepared statement
/// survives (Debian 12's version knows none, later ones are told to). The pool is smaller than what tests open at
/// once, so sessions are really shared.
fn ini(port: u16, behind: u16, directory: &str) -> String {
    format!(
        "[databases]\n\
         * = host=127.0.0.1 port={behind}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir = {directory}\n\
         auth_type = trust\n\
         auth_file = {directory}/users.txt\n\
         pool_mode = transaction\n\
         default_pool_size = 20\n\
         max_client_conn = 1000\n"
    )
}

/// The `18` of `PgBouncer 1.18.0`.
fn minor_version() -> Result<u32> {
    let output = Command::new(PROGRAM).arg("--version").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let minor = text.strip_prefix("PgBouncer 1.").and_then(|rest| rest.split('.').next());
    Ok(minor.ok_or("pgbouncer --version says no version")?.parse()?)
}
