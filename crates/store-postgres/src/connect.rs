//! Getting to the server: how encrypted, and through what.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use pillarbox_core::port::Pool;
use pillarbox_core::{Error, ErrorKind, Result};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool, Row};
use tokio::time::timeout;

use crate::error::{Phase, classify};
use crate::options::{Mode, Options, Traffic};
use crate::sql::Sql;

/// How often the self-test looks for a pooler. One look can miss it when other clients use it at that moment.
const PROBES: u32 = 16;
/// How long the self-test waits for an answer that a pooler may hold back.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection that lay idle for longer is tested before it is used again.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);

/// Reads a URL and decides on encryption.
///
/// The driver's own default falls back to plain text without a word. Here that happens on this machine only:
/// elsewhere the certificate is verified unless the URL says which other encryption will do.
pub(crate) fn target(url: &str, options: &Options) -> Result<PgConnectOptions> {
    let target = PgConnectOptions::from_str(url).map_err(|error| classify(error, Phase::Before))?;
    let named = names_sslmode(url) || std::env::var_os("PGSSLMODE").is_some();
    let target = target.extra_float_digits(None).disable_statement_logging();
    let target =
        if target.get_application_name().is_none() { target.application_name("pillarbox") } else { target };
    if is_local(&target) {
        return Ok(target);
    }
    match target.get_ssl_mode() {
        PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull => Ok(target),
        PgSslMode::Prefer if !named => Ok(target.ssl_mode(PgSslMode::VerifyFull)),
        PgSslMode::Prefer | PgSslMode::Allow | PgSslMode::Disable if options.insecure => Ok(target),
        _ => Err(Error::invalid(
            "sslmode allows an unencrypted connection to a database on another machine. Use \
             sslmode=verify-full, or allow it with the setting insecure = true",
        )),
    }
}

fn names_sslmode(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|pair| matches!(pair.split('=').next(), Some("sslmode" | "ssl-mode")))
}

fn is_local(target: &PgConnectOptions) -> bool {
    let host = target.get_host().trim_start_matches('[').trim_end_matches(']');
    target.get_socket().is_some()
        || host.starts_with('/')
        || host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Opens one connection outside of any pool, so that a problem with the server is reported at once.
pub(crate) async fn open(target: &PgConnectOptions, options: &Options) -> Result<PgConnection> {
    match timeout(options.connect_timeout, target.connect()).await {
        Ok(connection) => connection.map_err(|error| classify(error, Phase::Before)),
        Err(_) => {
            Err(Error::new(ErrorKind::Timeout, "the database did not answer within the connect timeout"))
        }
    }
}

/// Finds out whether a transaction pooler is in the way.
///
/// Two clients of a server have a session each. Behind a transaction pooler the second is handed the session
/// that the first has just let go of, or the first gets another one while the second keeps it.
pub(crate) async fn probe(target: &PgConnectOptions, options: &Options) -> Result<Mode> {
    let mut first = open(target, options).await?;
    let mut second = open(target, options).await?;
    let mut mode = Mode::Direct;
    for _ in 0..PROBES {
        // A pooler with one session only would keep the first client waiting for the second.
        let seen = timeout(PROBE_TIMEOUT, sessions_differ(&mut first, &mut second)).await;
        if !matches!(seen, Ok(Ok(true))) {
            if let Ok(Err(error)) = seen {
                return Err(classify(error, Phase::Before));
            }
            mode = Mode::Pooled;
            break;
        }
    }
    // Best effort: the answer is known, and a dropped connection closes as well.
    let _ = timeout(PROBE_TIMEOUT, second.close()).await;
    let _ = timeout(PROBE_TIMEOUT, first.close()).await;
    Ok(mode)
}

async fn sessions_differ(first: &mut PgConnection, second: &mut PgConnection) -> sqlx::Result<bool> {
    let before = session(first).await?;
    // The simple protocol: prepared statements are what a pooler breaks.
    sqlx::raw_sql("begin").execute(&mut *second).await?;
    let other = session(second).await?;
    let differ = before != other && before == session(first).await?;
    sqlx::raw_sql("rollback").execute(&mut *second).await?;
    Ok(differ)
}

async fn session(connection: &mut PgConnection) -> sqlx::Result<i32> {
    sqlx::raw_sql("select pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}

/// The connections of a pool.
pub(crate) fn connections(pool: &PgPool) -> Pool {
    let idle = u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
    let max = pool.options().get_max_connections();
    // Both change meanwhile, and are read one after the other.
    Pool { open: pool.size().max(idle), idle, max }
}

/// A pool for one kind of calls, whose connections are opened when they are needed.
pub(crate) fn pool(
    target: &PgConnectOptions,
    mode: Mode,
    options: &Options,
    line: Traffic,
    connections: u32,
) -> PgPool {
    let pool = PgPoolOptions::new()
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
        });
    match mode {
        Mode::Direct => {
            let settings = Sql::session(options, line);
            pool.after_connect(move |connection, _| {
                let settings = settings.clone();
                Box::pin(async move { settings.script().execute(connection).await.map(|_| ()) })
            })
            .connect_lazy_with(target.clone())
        }
        Mode::Pooled => pool.connect_lazy_with(target.clone().statement_cache_capacity(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, insecure: bool) -> Result<PgSslMode> {
        target(url, &Options::default().insecure(insecure)).map(|target| target.get_ssl_mode())
    }

    #[test]
    fn on_this_machine_plain_text_is_fine() {
        for url in [
            "postgres://u@127.0.0.1/db",
            "postgres://u@localhost:5433/db?sslmode=disable",
            "postgres://u@[::1]/db",
            "postgres://u@%2Frun%2Fpostgresql/db",
            "postgres:///db?host=/run/postgresql&user=u",
        ] {
            assert!(check(url, false).is_ok(), "{url}");
        }
    }

    #[test]
    fn elsewhere_the_certificate_is_verified_unless_the_url_says_otherwise() {
        assert!(matches!(check("postgres://u@db.example.org/db", false), Ok(PgSslMode::VerifyFull)));
        for (mode, wanted) in [("require", true), ("verify-ca", true), ("verify-full", true)] {
            assert_eq!(
                check(&format!("postgres://u@db.example.org/db?sslmode={mode}"), false).is_ok(),
                wanted
            );
        }
    }

    #[test]
    fn plain_text_to_another_machine_needs_the_setting() {
        for mode in ["prefer", "allow", "disable"] {
            let url = format!("postgres://u:canary@10.0.0.7/db?sslmode={mode}");
            let error = check(&url, false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("insecure = true") && !error.to_string().contains("canary"));
            assert!(check(&url, true).is_ok());
        }
    }

    #[test]
    fn a_bad_url_is_refused_without_its_password() {
        for url in [
            "postgres://u:canary@h:notaport/db",
            "not a url canary",
            "postgres://u:canary@h/db?sslmode=never",
        ] {
            let error = check(url, false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(!format!("{error:?}").contains("canary"), "{error}");
        }
    }
}
