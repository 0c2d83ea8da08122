//! Getting to the server: how encrypted, and whether it is one that this crate works with.

use std::net::IpAddr;
use std::time::Duration;

use mongodb::bson::doc;
use mongodb::options::{ClientOptions, ServerAddress, Tls, TlsOptions};
use mongodb::{Client, Database};
use pillarbox_core::{Error, ErrorKind, Result};
use tokio::time::timeout;

use crate::error::{Phase, classify};
use crate::options::Options;

/// Connections of relays: a claim looks in several places at once, and a settle never waits for it.
pub(crate) const RELAY: u32 = 16;
/// The oldest version that this crate works with.
const LEAST: (u32, u32) = (7, 0);

/// Reads a URL and decides on encryption.
///
/// The driver's own default is plain text. Here that is so on this machine only: elsewhere TLS is on, unless the URL says
/// otherwise and the settings allow it.
pub(crate) async fn target(url: &str, options: &Options) -> Result<ClientOptions> {
    let mut target = ClientOptions::parse(url).await.map_err(|error| {
        let error = classify(&error, Phase::Before);
        // The driver quotes parts of a URL that it cannot read.
        if error.kind() == ErrorKind::Invalid { unreadable() } else { error }
    })?;
    match &target.tls {
        _ if target.hosts.iter().all(is_local) => {}
        None => target.tls = Some(Tls::Enabled(TlsOptions::default())),
        Some(Tls::Enabled(_)) => {}
        Some(_) if options.insecure => {}
        Some(_) => {
            return Err(Error::invalid(
                "the URL asks for an unencrypted connection to a database on another machine. Remove tls=false, or \
                 allow it with the setting insecure = true",
            ));
        }
    }
    Ok(target)
}

fn unreadable() -> Error {
    Error::invalid(
        "the database URL cannot be read; write mongodb://user:password@host:port/database?replicaSet=NAME, with special \
         characters of the password percent-encoded",
    )
}

fn is_local(address: &ServerAddress) -> bool {
    match address {
        ServerAddress::Tcp { host, .. } => {
            let host = host.trim_matches(['[', ']']);
            let is_loopback = || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
            host.eq_ignore_ascii_case("localhost") || is_loopback()
        }
        // A socket of this machine.
        _ => true,
    }
}

/// A client whose connections are opened when they are needed.
pub(crate) fn client(
    target: &ClientOptions,
    options: &Options,
    connections: u32,
    app_name: String,
) -> Result<Client> {
    let mut target = target.clone();
    target.max_pool_size = Some(connections);
    target.connect_timeout = Some(options.connect_timeout);
    target.server_selection_timeout = Some(options.acquire_timeout);
    target.app_name = Some(app_name);
    Client::with_options(target).map_err(|error| classify(&error, Phase::Before))
}

/// The database of the collections on a client of the application's.
pub(crate) fn database(client: &Client, options: &Options) -> Result<Database> {
    let named = options.database.as_deref().map(|name| client.database(name));
    named.or_else(|| client.default_database()).ok_or_else(|| {
        Error::invalid("no database is named; write it in the client's URL, or set Options::database")
    })
}

/// Refuses a server that is too old, that has no transactions, or that is not the primary.
pub(crate) async fn check(client: &Client, database: &str, patience: Duration) -> Result<()> {
    let ask = async {
        let database = client.database(database);
        let hello = database.run_command(doc! { "hello": 1 }).await?;
        let build = database.run_command(doc! { "buildInfo": 1 }).await?;
        Ok((hello, build))
    };
    let answer = timeout(patience, ask).await;
    let late = |_| Error::new(ErrorKind::Timeout, "the database did not answer within the connect timeout");
    let (hello, build) = answer.map_err(late)?.map_err(|error| classify(&error, Phase::Before))?;
    check_version(build.get_str("version").unwrap_or_default())?;
    if hello.get_str("msg") == Ok("isdbgrid") {
        let text =
            "the server is a router of a sharded cluster; Pillarbox needs a replica set without shards";
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    if hello.get_str("setName").is_err() {
        let text = "the server is not a member of a replica set, so it has no transactions. Start mongod with --replSet \
            NAME and run rs.initiate() once; a set of one node is enough";
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    // The driver asks the primary, unless the URL tells it to ask one node.
    if hello.get_bool("isWritablePrimary") != Ok(true) {
        let text = "the server is not the primary of its replica set now, so it accepts no writes. Remove \
            directConnection=true from the URL and name the set there with replicaSet=NAME, so that the primary is found";
        return Err(Error::new(ErrorKind::ReadOnly, text));
    }
    Ok(())
}

fn check_version(version: &str) -> Result<()> {
    let mut numbers = version.split(['.', '-']).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return Err(Error::new(ErrorKind::Unsupported, format!("MongoDB {version} is no known version")));
    };
    if (major, minor) < LEAST {
        let text = format!("the server is MongoDB {version}; Pillarbox needs MongoDB 7.0 or later");
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn tls(url: &str, insecure: bool) -> Result<Option<Tls>> {
        target(url, &Options::default().insecure(insecure)).await.map(|target| target.tls)
    }

    #[tokio::test]
    async fn on_this_machine_plain_text_is_fine() {
        for url in
            ["mongodb://127.0.0.1/db", "mongodb://u:p@localhost:3307/db?tls=false", "mongodb://[::1]/db"]
        {
            assert!(!matches!(tls(url, false).await.unwrap(), Some(Tls::Enabled(_))), "{url}");
        }
    }

    #[tokio::test]
    async fn elsewhere_tls_is_on_unless_the_url_and_the_settings_say_otherwise() {
        for url in ["mongodb://db.example.org/db", "mongodb://db.example.org/db?tls=true"] {
            assert!(matches!(tls(url, false).await.unwrap(), Some(Tls::Enabled(_))), "{url}");
        }
        let url = "mongodb://u:canary@10.0.0.7/db?tls=false";
        let error = tls(url, false).await.unwrap_err();
        assert!(error.to_string().contains("insecure = true"), "{error}");
        assert!(!format!("{error:?}").contains("canary"), "{error}");
        assert!(tls(url, true).await.is_ok());
        // One node elsewhere is enough.
        assert!(tls("mongodb://localhost,10.0.0.7/db?tls=false", false).await.is_err());
    }

    #[tokio::test]
    async fn a_bad_url_is_refused_without_its_password() {
        for url in
            ["mongodb://u:canary@h:notaport/db", "not a url canary", "mongodb://u:cana/ry@127.0.0.1/db"]
        {
            let error = tls(url, false).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            let shown = format!("{error:?}");
            assert!(!shown.contains("canary") && !shown.contains("cana/"), "{shown}");
        }
    }

    #[test]
    fn a_server_that_is_too_old_is_refused_with_what_is_needed() {
        for version in ["7.0.0", "8.2.0", "8.0.4-ent", "10.1.0"] {
            check_version(version).unwrap();
        }
        for (version, says) in
            [("6.0.14", "MongoDB 6.0.14; Pillarbox needs MongoDB 7.0 or later"), ("what", "no known version")]
        {
            let error = check_version(version).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
