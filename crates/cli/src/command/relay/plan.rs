//! Which routes a relay delivers, and to where.

use std::collections::BTreeMap;

use pillarbox_core::RouteName;

use crate::config::{Config, FILE_DEFAULT, RouteConfig};
use crate::destination::Destination;
use crate::fault::Fault;

/// Routes by name.
pub(crate) type Routes = BTreeMap<RouteName, RouteConfig>;

/// The routes that the command line and the configuration mean together.
pub(crate) fn routes(
    named: &[RouteName],
    to: Option<Destination>,
    allow_private: bool,
    config: &Config,
) -> Result<Routes, Fault> {
    match (named, to) {
        ([route], Some(to)) => {
            let mut policy =
                config.routes.get(route).cloned().unwrap_or_else(|| RouteConfig::new(to.clone()));
            policy.webhook.allow_private |= allow_private;
            policy.webhook.check(&to).map_err(|error| Fault::usage(format!("--to: {error}")))?;
            policy.to = to;
            Ok(Routes::from([(route.clone(), policy)]))
        }
        (_, Some(_)) => {
            Err(Fault::usage("--to is the destination of one route; give exactly one --route with it"))
        }
        ([], None) if config.routes.is_empty() => Err(Fault::usage(format!(
            "no routes are configured. Add [routes.NAME] with to = \"…\" to {FILE_DEFAULT}, or give --route \
             NAME --to URL"
        ))),
        ([], None) => Ok(config.routes.clone()),
        (named, None) => named.iter().map(|route| configured(route, config)).collect(),
    }
}

fn configured(route: &RouteName, config: &Config) -> Result<(RouteName, RouteConfig), Fault> {
    let known: Vec<_> = config.routes.keys().map(RouteName::as_str).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let policy = config.routes.get(route).ok_or_else(|| {
        Fault::usage(format!(
            "route {route} is not configured (configured: {known}). Name its destination with --to URL"
        ))
    })?;
    Ok((route.clone(), policy.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(route: &str) -> RouteName {
        RouteName::new(route).unwrap()
    }

    fn config() -> Config {
        toml::from_str("[routes.a]\nto = \"null:\"\nbatch = 7\n[routes.b]\nto = \"stdout:\"").unwrap()
    }

    #[test]
    fn the_configured_ones_are_the_default() {
        assert_eq!(routes(&[], None, false, &config()).unwrap().len(), 2);
        let one = routes(&[name("b")], None, false, &config()).unwrap();
        assert_eq!(one.keys().collect::<Vec<_>>(), [&name("b")]);
    }

    #[test]
    fn a_destination_on_the_command_line_keeps_the_configured_policy() {
        let one = routes(&[name("a")], Some(Destination::Stdout), false, &config()).unwrap();
        assert_eq!(one[&name("a")].to, Destination::Stdout);
        assert_eq!(one[&name("a")].options(std::time::Duration::ZERO).batch, 7);
        let other = routes(&[name("new")], Some(Destination::Null), false, &Config::default()).unwrap();
        assert_eq!(other[&name("new")].to, Destination::Null);
    }

    #[test]
    fn what_is_not_clear_is_refused_with_what_to_do() {
        for (fault, named) in [
            (routes(&[], None, false, &Config::default()), "--route NAME --to URL"),
            (routes(&[name("x")], None, false, &config()), "configured: a, b"),
            (routes(&[name("a"), name("b")], Some(Destination::Null), false, &config()), "exactly one"),
        ] {
            let fault = fault.unwrap_err();
            assert_eq!(fault.exit_code(), 2);
            assert!(fault.message().unwrap().contains(named), "{fault:?}");
        }
    }
}
