//! Getting to the server: how encrypted, which server it is, and how its sessions are set.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use pillarbox_core::port::Pool;
use pillarbox_core::{Error, ErrorKind, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions, MySqlSslMode};
use sqlx::{ConnectOptions, Connection, MySqlConnection, MySqlPool, Row};
use tokio::time::timeout;

use crate::error::{Phase, classify};
use crate::options::{Options, Traffic};
use crate::sql::script;

/// A connection that lay idle for longer is tested before it is used again.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);

/// The one character set that has every text.
const CHARSET: &str = "utf8mb4";

/// The oldest versions that this crate works with.
const MARIADB_LEAST: (u32, u32) = (10, 6);
const MYSQL_LEAST: (u32, u32) = (8, 4);

/// Reads a URL and decides on encryption.
///
/// The driver's own default falls back to plain text without a word. Here that happens on this machine only:
/// elsewhere the certificate is verified unless the URL says which other encryption will do.
pub(crate) fn target(url: &str, options: &Options) -> Result<MySqlConnectOptions> {
    let url = match url.split_once("://") {
        Some(("mariadb", rest)) => format!("mysql://{rest}"),
        _ => url.to_owned(),
    };
    let target = MySqlConnectOptions::from_str(&url).map_err(|error| classify(error, Phase::Before))?;
    // What our statements need is set for our own connections alone, and for the application's on them.
    let target = target.disable_statement_logging().pipes_as_concat(false);
    if target.get_database().is_none_or(str::is_empty) {
        return Err(Error::invalid("the URL names no database; write mysql://user@host/database"));
    }
    if !target.get_charset().eq_ignore_ascii_case(CHARSET) {
        let text = "the URL names a character set that cannot hold every text; write charset=utf8mb4, or leave it out";
        return Err(Error::invalid(text));
    }
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let named = query.split('&').any(|pair| matches!(pair.split('=').next(), Some("sslmode" | "ssl-mode")));
    match target.get_ssl_mode() {
        _ if is_local(&target) => Ok(target),
        MySqlSslMode::Required | MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity => Ok(target),
        MySqlSslMode::Preferred if !named => Ok(target.ssl_mode(MySqlSslMode::VerifyIdentity)),
        _ if options.insecure => Ok(target),
        _ => Err(Error::invalid(
            "ssl-mode allows an unencrypted connection to a database on another machine. Use \
             ssl-mode=VERIFY_IDENTITY, or allow it with the setting insecure = true",
        )),
    }
}

fn is_local(target: &MySqlConnectOptions) -> bool {
    let host = target.get_host().trim_matches(['[', ']']);
    let is_loopback = || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    target.get_socket().is_some() || host.eq_ignore_ascii_case("localhost") || is_loopback()
}

/// Opens one connection outside of any pool, so that a problem with the server is reported at once.
pub(crate) async fn open(target: &MySqlConnectOptions, options: &Options) -> Result<MySqlConnection> {
    let opened = timeout(options.connect_timeout, target.connect()).await;
    let late = |_| Error::new(ErrorKind::Timeout, "the database did not answer within the connect timeout");
    opened.map_err(late)?.map_err(|error| classify(error, Phase::Before))
}

/// Which of the two servers it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    MariaDb,
    MySql,
}

impl Server {
    /// Asks the server, and refuses one that is too old.
    pub(crate) async fn ask(connection: &mut MySqlConnection) -> Result<Self> {
        let row = sqlx::query("select version()").fetch_one(connection).await;
        let version = row.and_then(|row| row.try_get_unchecked::<String, _>(0));
        Self::of(&version.map_err(|error| classify(error, Phase::Before))?)
    }

    fn of(version: &str) -> Result<Self> {
        let server = if version.contains("MariaDB") { Self::MariaDb } else { Self::MySql };
        let (name, least) = match server {
            Self::MariaDb => ("MariaDB", MARIADB_LEAST),
            Self::MySql => ("MySQL", MYSQL_LEAST),
        };
        // A MariaDB that hides behind an old version of MySQL says its own after a dash.
        let mut numbers = version.trim_start_matches("5.5.5-").split(['.', '-']).map(str::parse::<u32>);
        let found = (numbers.next(), numbers.next());
        let (Some(Ok(major)), Some(Ok(minor))) = found else {
            return Err(Error::new(ErrorKind::Unsupported, format!("{name} {version} is no known version")));
        };
        if (major, minor) < least {
            let (wanted, point) = least;
            let text =
                format!("the server is {name} {version}; Pillarbox needs {name} {wanted}.{point} or later");
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        Ok(server)
    }

    /// How every session of a store is set. Statements rely on nothing else.
    pub(crate) fn settings(self, options: &Options, line: Traffic) -> String {
        let (lock, run) = (options.lock_timeout.as_secs().max(1), options.statement_timeout);
        let mut settings = format!(
            "set session transaction isolation level read committed; \
             set session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
             session innodb_lock_wait_timeout = {lock}, session lock_wait_timeout = {lock}"
        );
        if line.begins_by_itself() {
            settings.push_str(", session autocommit = 0");
        }
        if line != Traffic::Operator {
            match self {
                Self::MariaDb => {
                    settings.push_str(&format!(", session max_statement_time = {}", run.as_secs().max(1)))
                }
                Self::MySql => {
                    settings.push_str(&format!(", session max_execution_time = {}", run.as_millis().max(1)));
                }
            }
        }
        settings
    }
}

/// The connections of a pool.
pub(crate) fn connections(pool: &MySqlPool) -> Pool {
    let idle = u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
    let max = pool.options().get_max_connections();
    // Both change meanwhile, and are read one after the other.
    Pool { open: pool.size().max(idle), idle, max }
}

/// A pool for one kind of calls, whose connections are opened when they are needed.
pub(crate) fn pool(
    target: &MySqlConnectOptions,
    server: Server,
    options: &Options,
    line: Traffic,
    connections: u32,
) -> MySqlPool {
    let settings = server.settings(options, line);
    MySqlPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(options.acquire_timeout)
        // Testing every time would double the round trips of a busy relay.
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > TRUSTED_IDLE {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .after_connect(move |connection, _| {
            let settings = script(&settings);
            Box::pin(async move { settings.execute(connection).await.map(|_| ()) })
        })
        .connect_lazy_with(target.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(url: &str, insecure: bool) -> Result<MySqlSslMode> {
        target(url, &Options::default().insecure(insecure)).map(|target| target.get_ssl_mode())
    }

    #[test]
    fn on_this_machine_plain_text_is_fine() {
        for url in [
            "mysql://u@127.0.0.1/db",
            "mariadb://u@localhost:3307/db?ssl-mode=DISABLED",
            "mysql://u@[::1]/db",
            "mysql://u@db.example.org/db?socket=/run/mysqld/mysqld.sock",
        ] {
            assert!(mode(url, false).is_ok(), "{url}");
        }
    }

    #[test]
    fn elsewhere_the_certificate_is_verified_unless_the_url_says_otherwise() {
        assert!(matches!(mode("mysql://u@db.example.org/db", false), Ok(MySqlSslMode::VerifyIdentity)));
        for name in ["REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"] {
            assert!(mode(&format!("mysql://u@db.example.org/db?ssl-mode={name}"), false).is_ok(), "{name}");
        }
        for name in ["PREFERRED", "DISABLED"] {
            let url = format!("mysql://u:canary@10.0.0.7/db?ssl-mode={name}");
            let error = mode(&url, false).unwrap_err();
            assert!(error.to_string().contains("insecure = true"), "{error}");
            assert!(!format!("{error:?}").contains("canary"), "{error}");
            assert!(mode(&url, true).is_ok());
        }
    }

    #[test]
    fn a_bad_url_is_refused_without_its_password() {
        for url in ["mysql://u:canary@h:notaport/db", "not a url canary", "mysql://u:canary@127.0.0.1"] {
            let error = mode(url, false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(!format!("{error:?}").contains("canary"), "{error}");
        }
    }

    #[test]
    fn a_server_that_is_too_old_is_refused_with_what_is_needed() {
        for (version, server) in [
            ("10.6.0-MariaDB", Server::MariaDb),
            ("5.5.5-10.11.6-MariaDB-1:10.11.6+maria~ubu2204", Server::MariaDb),
            ("11.4.2-MariaDB-log", Server::MariaDb),
            ("8.4.0", Server::MySql),
            ("9.7.4-2", Server::MySql),
        ] {
            assert_eq!(Server::of(version).unwrap(), server, "{version}");
        }
        for (version, says) in [
            ("10.5.23-MariaDB", "MariaDB 10.5.23-MariaDB; Pillarbox needs MariaDB 10.6 or later"),
            ("8.0.36", "MySQL 8.0.36; Pillarbox needs MySQL 8.4 or later"),
            ("what", "no known version"),
        ] {
            let error = Server::of(version).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
