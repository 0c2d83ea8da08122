//! Dead letters by type and error, with what can be done about each group.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillarbox_core::port::{CountBy, CountByRequest, CountGroup, Filter};
use pillarbox_core::{RouteName, Status};

use crate::api::EntriesQuery;
use crate::error::Refusal;
use crate::security::Visitor;
use crate::shared::Shared;
use crate::text;

use super::layout::Frame;
use super::parts::{self, Mark};
use super::refused;

/// The most groups of one route that are shown.
const GROUPS_SHOWN_MAX: u32 = 50;
/// The most routes whose groups are shown.
const ROUTES_SHOWN_MAX: usize = 50;

pub(crate) async fn dead(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
) -> Response {
    match shown(&shared, &visitor).await {
        Ok(page) => page.into_response(),
        Err(refusal) => refused(&shared, &visitor, &refusal),
    }
}

async fn shown(shared: &Shared, visitor: &Visitor) -> Result<Markup, Refusal> {
    let snapshot = shared.first_look().await;
    let (mut found, mut total) = (Vec::new(), 0);
    let mut routes = snapshot.routes.iter().filter(|view| view.counts.of(Status::Dead) > 0);
    for view in routes.by_ref().take(ROUTES_SHOWN_MAX) {
        let route = view.counts.route.clone();
        let filter = Filter::dead().route(route.clone()).limit(GROUPS_SHOWN_MAX);
        let request = CountByRequest { filter, by: CountBy::TypeAndError };
        let groups = shared.ports.admin.count_by(request).await?;
        if groups.is_empty() {
            continue;
        }
        let listed: u64 = groups.iter().map(|group| group.entries).sum();
        // The last look has counted the groups that are not listed, too.
        let is_cut = groups.len() >= usize::try_from(GROUPS_SHOWN_MAX).unwrap_or(usize::MAX);
        let others = if is_cut { view.counts.of(Status::Dead).saturating_sub(listed) } else { 0 };
        total += listed + others;
        found.push(Found { route, blocked: view.counts.blocked, groups, others });
    }
    let beyond: Vec<u64> = routes.map(|view| view.counts.of(Status::Dead)).collect();
    total += beyond.iter().sum::<u64>();
    let frame = Frame::new(shared, visitor, "Dead letters").here("/dead");
    Ok(frame.page(&html! {
        h1 { "Dead letters" }
        @if found.is_empty() {
            section.empty { p { "Nothing was given up. Dead events would be grouped here by type and error." } }
        } @else {
            p.lead { (text::events(total)) " given up. A requeue tries them again under the same event ids, with a fresh budget of attempts." }
            @for found in &found { (section(shared, found)) }
            @if !beyond.is_empty() {
                p.nothing { "Not listed: " (text::events(beyond.iter().sum())) " on " (text::count(beyond.len() as u64)) " more routes. " a href=(shared.path("/entries?status=dead")) { "Show all dead entries" } }
            }
        }
    }))
}

/// The dead letters of one route.
struct Found {
    route: RouteName,
    /// Entries that wait behind them.
    blocked: u64,
    groups: Vec<CountGroup>,
    /// Dead letters of smaller groups, which are not listed.
    others: u64,
}

fn section(shared: &Shared, found: &Found) -> Markup {
    let Found { route, blocked, groups, others } = found;
    let query = EntriesQuery {
        route: Some(route.to_string()),
        status: Some("dead".into()),
        ..EntriesQuery::default()
    };
    html! {
        section {
            h2.break { a href=(parts::route_path(shared, route.as_str())) { (parts::cut(route.as_str(), 80)) } }
            @if *blocked > 0 {
                p { (parts::state(Mark::Blocked, "blocked")) " " (text::events(*blocked)) " wait behind them. " a href=(parts::route_path(shared, route.as_str())) { "Show which" } }
            }
            table.groups data-rows="" {
                caption.hidden { "Dead letters of " (parts::cut(route.as_str(), 80)) }
                thead { tr { th.check scope="col" { input type="checkbox" data-select-all="" aria-label={ "Select all groups of " (parts::cut(route.as_str(), 80)) }; } th scope="col" { "type" } th scope="col" { "error" } th.number scope="col" { "events" } th.act scope="col" { span.hidden { "actions" } } } }
                tbody { @for group in groups { (row(shared, route, group)) } }
            }
            @if *others > 0 {
                p.nothing { "Not listed: " (text::events(*others)) " in smaller groups. " a href=(shared.path(&format!("/entries?{}", query.link()))) { "Show all dead entries of this route" } }
            }
        }
    }
}

fn row(shared: &Shared, route: &RouteName, group: &CountGroup) -> Markup {
    let (event_type, error) = group.pair().unwrap_or_default();
    let query = EntriesQuery {
        route: Some(route.to_string()),
        status: Some("dead".into()),
        event_type: Some(event_type.to_owned()),
        error: error.map(ToOwned::to_owned),
        ..EntriesQuery::default()
    };
    let filter = serde_json::to_string(&query).unwrap_or_default();
    let words = format!(
        "of type {} that died with {}",
        text::visible(event_type),
        error.unwrap_or("no recorded error")
    );
    html! {
        tr data-key={ (route) " " (event_type) " " (error.unwrap_or_default()) } data-status="dead" data-filter=(filter) {
            td.check { input type="checkbox" data-select="" aria-label={ "Select the group " (words) }; }
            td.break data-label="type" { a.name href=(shared.path(&format!("/entries?{}", query.link()))) data-open="" { (parts::cut(event_type, 100)) } }
            td.break data-label="error" { (parts::mark(Mark::Dead)) " " (error.unwrap_or("no recorded error")) }
            td.number data-label="events" { (text::count(group.entries)) }
            td.act.row-actions {
                button.primary type="button" data-verb="requeue" data-filter=(filter) data-words=(words) { "Requeue" }
                button.danger type="button" data-verb="discard" data-filter=(filter) data-words=(words) { "Discard" }
            }
        }
    }
}
