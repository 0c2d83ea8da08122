//! A read where next to nothing is new: by the last numbers that were drawn, not lane by lane.

use pillarbox_core::late::{Ask, Position, Told};
use pillarbox_core::port::{LANES, SessionId};
use pillarbox_core::{Entry, Result, RouteName};
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::read::{by_lane, time};
use super::row::{READ_COLUMNS, decode};
use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::store::PostgresStore;

/// How many numbers are gone through at most, whether there is an entry of these lanes or not.
const NUMBERS_MAX: i64 = 256;

/// The answer; what it is worth is known at its end.
#[derive(Default)]
struct Answer {
    head: Option<Head>,
    entries: Vec<Entry>,
    /// Of each lane, how many more are wanted.
    wanted: Option<[u32; LANES as usize]>,
    undecodable: bool,
}

struct Head {
    /// How many lanes are held and as the reader knows them.
    same: i64,
    present: Vec<i64>,
    writers: Vec<i64>,
    drawn: Option<i64>,
    now: i64,
}

impl Head {
    fn of(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            same: row.try_get(READ_COLUMNS)?,
            present: row.try_get(READ_COLUMNS + 1)?,
            writers: row.try_get(READ_COLUMNS + 2)?,
            drawn: row.try_get(READ_COLUMNS + 3)?,
            now: row.try_get(READ_COLUMNS + 4)?,
        })
    }
}

impl Answer {
    /// Takes the next row; the first one is the head.
    fn put(&mut self, row: &PgRow, route: &RouteName, positions: &[Position]) -> sqlx::Result<()> {
        if self.head.is_none() {
            self.head = Some(Head::of(row)?);
            return Ok(());
        }
        let decoded = decode(row, route)?;
        self.undecodable |= decoded.undecodable.is_some();
        let wanted = self.wanted.get_or_insert_with(|| {
            by_lane(positions).map(|position| position.map_or(0, |position| position.limit))
        });
        let wanted = decoded.entry.lane.and_then(|lane| wanted.get_mut(usize::from(lane)));
        if let Some(wanted) = wanted.filter(|wanted| **wanted > 0) {
            *wanted -= 1;
            self.entries.push(decoded.entry);
        }
        Ok(())
    }
}

impl PostgresStore {
    /// What there is, if there is little and nothing has changed of what the reader knows; `None` says nothing.
    pub(super) async fn read_recent(
        &self,
        route: &RouteName,
        SessionId(session): SessionId,
        ask: &Ask,
    ) -> Result<Option<Told>> {
        let lowest = |position: &Position| position.floor.min(position.cursor);
        let Some(lowest) = ask.positions.iter().map(lowest).min() else { return Ok(None) };
        let highest = lowest.saturating_add(NUMBERS_MAX);
        // Half of it was drawn by the last read, and as much may be since.
        let few = ask.drawn > 0 && ask.drawn <= lowest.saturating_add(NUMBERS_MAX / 2);
        if !few || ask.revisions.len() != ask.positions.len() {
            return Ok(None);
        }
        let places = by_lane(&ask.positions);
        let each = |what: fn(&Position) -> i64| -> Vec<Option<i64>> {
            places.iter().map(|place| place.as_ref().map(what)).collect()
        };
        let mut revisions = vec![None; usize::from(LANES)];
        for (lane, revision) in &ask.revisions {
            if let Some(place) = revisions.get_mut(usize::from(*lane)) {
                *place = Some(*revision);
            }
        }
        let arguments = Bind::new()
            .text(route.as_str())
            .value(session)
            .value(each(|position| position.floor))
            .value(each(|position| position.cursor))
            .value(revisions)
            .value(ask.writers)
            .number(lowest)
            .number(highest)
            .done()?;
        let put = |answer: &mut Answer, row: PgRow| answer.put(&row, route, &ask.positions);
        let sql = &self.sql().lanes_recent;
        let answer = self.run_each(Traffic::Relay, Again::Always, sql, arguments, put).await?;
        let Some(head) = answer.head else { return Ok(None) };
        let same = usize::try_from(head.same).is_ok_and(|same| same == ask.positions.len());
        let all = head.drawn.is_some_and(|drawn| drawn <= highest);
        if !same || !all || answer.undecodable {
            return Ok(None);
        }
        let mut told = Told::nothing(time(head.now));
        (told.present, told.entries, told.revisions) = (head.present, answer.entries, ask.revisions.clone());
        told.drawn = head.drawn.unwrap_or(0);
        told.writers = head.writers.into_iter().map(i64::cast_unsigned).collect();
        Ok(Some(told))
    }
}
