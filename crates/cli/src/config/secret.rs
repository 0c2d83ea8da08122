//! Noticing secrets that stand in the file itself.

use std::path::Path;

use toml::de::{DeTable, DeValue};

/// Whether the text, before any variable is put in, holds a password or a token.
pub(crate) fn has_literal_secret(table: &DeTable<'_>) -> bool {
    table.iter().any(|(key, value)| match value.get_ref() {
        DeValue::String(text) if is_secret_name(key.get_ref()) => is_literal(text),
        DeValue::Array(items) if is_secret_name(key.get_ref()) => {
            items.iter().any(|item| matches!(item.get_ref(), DeValue::String(text) if is_literal(text)))
        }
        DeValue::String(text) => password_of(text).is_some_and(is_literal),
        DeValue::Table(table) => has_literal_secret(table),
        _ => false,
    })
}

/// Whether anybody but the owner may read the file.
#[cfg(unix)]
pub(crate) fn readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

/// Whether anybody but the owner may read the file: not known here.
#[cfg(not(unix))]
pub(crate) fn readable_by_others(_: &Path) -> bool {
    false
}

fn is_secret_name(key: &str) -> bool {
    matches!(key, "token" | "viewer_token" | "password" | "secret")
}

fn is_literal(text: &str) -> bool {
    !text.is_empty() && !text.contains("${")
}

// The authority ends at the first slash, and the user information at its last `@`.
fn password_of(url: &str) -> Option<&str> {
    let authority = url.split_once("://")?.1.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    match user.split_once(':') {
        Some((_, password)) => Some(password),
        // To NATS, what stands alone is a token.
        None => (url.starts_with("nats:") || url.starts_with("tls:")).then_some(user),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, secret: bool) {
        assert_eq!(has_literal_secret(DeTable::parse(text).unwrap().get_ref()), secret, "{text}");
    }

    #[test]
    fn a_password_in_a_url_is_noticed() {
        check("[database]\nurl = 'postgres://app:hunter2@db/shop'", true);
        check("[database]\nurl = 'postgres://app:${PASSWORD}@db/shop'", false);
        check("[database]\nurl = '${DATABASE_URL}'", false);
        check("[database]\nurl = 'postgres://app@db/shop'", false);
        check("[database]\nurl = 'sqlite://a:b.db'", false);
        check("[admin]\ntoken = 'abc'", true);
        check("[admin]\ntoken = '${T}'", false);
        check("[routes.r]\nto = 'nats://abc@h/s'", true);
        check("[routes.r]\nto = 'nats://${TOKEN}@h/s'", false);
        check("[routes.r]\nsecret = 'whsec_abc'", true);
        check("[routes.r]\nsecret = ['${NEW}', 'whsec_abc']", true);
        check("[routes.r]\nsecret = ['${NEW}', '${OLD}']", false);
    }
}
