//! What is in the lanes that a session holds.

use std::sync::LazyLock;
use std::time::Instant;

use pillarbox_core::late::{Ask, LateCursor, Position, Reading, Told};
use pillarbox_core::port::{
    FetchRequest, Fetched, Head, HeadKind, HeadsRequest, LANES, LaneRead, LaneRow, Passed, PassedRequest,
    ReadRequest, SessionId, Undecodable,
};
use pillarbox_core::{Entry, Error, ErrorKind, Fence, Held, Result, RouteName, Timestamp};
use serde::Deserialize;
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::numbers;
use super::row::{READ_COLUMNS, decode};
use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::error::{Phase, classify};
use crate::row::Decoded;
use crate::store::PostgresStore;

/// What times of reads are counted from: this clock is never set.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What the first row of a read says about the lanes.
#[derive(Deserialize)]
struct FirstRow {
    /// Whether the session is there.
    here: bool,
    /// Number, fence and revision of each lane that it holds and asked for.
    lanes: Vec<(u8, i64, i64)>,
    /// What is unsettled where it was looked for once more.
    present: Vec<i64>,
    writers: Vec<i64>,
    /// The last seq that was drawn; none was yet, or the sequence is not ours to read.
    drawn: Option<i64>,
    /// Microseconds since 1970.
    now: i64,
}

/// The answer to a read.
#[derive(Default)]
struct Answer {
    head: Option<FirstRow>,
    entries: Vec<Entry>,
    undecodable: Vec<LaneRow>,
}

impl Answer {
    /// Takes the next row; the first one is the head. There are `most` entries at most.
    fn put(&mut self, row: &PgRow, route: &RouteName, most: usize) -> sqlx::Result<()> {
        let Some(head) = &self.head else {
            let head = serde_json::from_str(row.try_get(0)?);
            self.head = Some(head.map_err(|error| sqlx::Error::Decode(error.into()))?);
            return Ok(());
        };
        let decoded = decode(row, route)?;
        if self.entries.is_empty() {
            // Entries are large: they are not moved each time that there are twice as many.
            self.entries.reserve(most);
        }
        let fence =
            || head.lanes.iter().find(|lane| Some(lane.0) == decoded.entry.lane).map(|lane| Fence(lane.1));
        let fence = decoded.undecodable.as_ref().and_then(|_| fence());
        sort_out(decoded, fence, &mut self.entries, &mut self.undecodable);
        Ok(())
    }
}

impl PostgresStore {
    pub(crate) async fn read_lanes(&self, request: ReadRequest) -> Result<LaneRead> {
        request.check()?;
        let (route, session) = (&request.route, request.session);
        let mut reading = Reading::begin(&request.cursor, &request.lanes, BEGAN.elapsed());
        let told = match self.read_recent(route, session, reading.ask()).await? {
            Some(told) => told,
            None => self.read_each(route, session, reading.ask()).await?,
        };
        if !self.note(route, session, &told.entries, &told.undecodable).await? {
            return Ok(LaneRead::lost(told.now));
        }
        let looked = match reading.missed(&told) {
            Some(ask) => Some(self.read_each(route, session, &ask).await?),
            None => None,
        };
        Ok(reading.end(told, looked))
    }

    pub(crate) async fn passed_lanes(&self, request: PassedRequest) -> Result<Passed> {
        request.check()?;
        let ask = LateCursor::passed(&request.cursor, &request.lanes);
        Ok(self.read_each(&request.route, request.session, &ask).await?.into_passed())
    }

    /// Reads lane by lane.
    async fn read_each(&self, route: &RouteName, session: SessionId, ask: &Ask) -> Result<Told> {
        let places = by_lane(&ask.positions);
        let each = |what: fn(Position) -> i64| -> Vec<Option<i64>> {
            places.iter().map(|place: &Option<Position>| place.map(what)).collect()
        };
        let arguments = Bind::new()
            .text(route.as_str())
            .value(session.0)
            .value(each(|position| position.floor))
            .value(each(|position| position.cursor))
            .value(each(|position| position.limit.into()))
            .value(ask.writers)
            .done()?;
        let most = ask.positions.iter().filter_map(|position| usize::try_from(position.limit).ok()).sum();
        // What is read twice is read.
        let put = |answer: &mut Answer, row: PgRow| answer.put(&row, route, most);
        let sql = &self.sql().lanes_read;
        let answer = self.run_each(Traffic::Relay, Again::Always, sql, arguments, put).await?;
        let Answer { head: Some(head), entries, undecodable } = answer else {
            return Err(unreadable());
        };
        let mut told = Told::nothing(time(head.now));
        if !head.here {
            told.lost = true;
            return Ok(told);
        }
        (told.present, told.entries, told.undecodable) = (head.present, entries, undecodable);
        told.revisions = head.lanes.iter().map(|(lane, _, revision)| (*lane, *revision)).collect();
        told.drawn = head.drawn.unwrap_or(0);
        told.writers = head.writers.into_iter().map(i64::cast_unsigned).collect();
        Ok(told)
    }

    /// Notes how far was read, if anything was. `false`: the session was taken for dead.
    async fn note(
        &self,
        route: &RouteName,
        session: SessionId,
        entries: &[Entry],
        undecodable: &[LaneRow],
    ) -> Result<bool> {
        let newest = entries.iter().map(|entry| entry.seq);
        let Some(newest) = newest.chain(undecodable.iter().map(|row| row.row.held.seq)).max() else {
            return Ok(true);
        };
        let arguments = Bind::new().text(route.as_str()).value(session.0).number(newest).done()?;
        let rows = self.run(Traffic::Relay, Again::Always, &self.sql().lanes_note, arguments).await?;
        rows.first().and_then(|row| row.try_get(0).ok()).ok_or_else(unreadable)
    }

    pub(crate) async fn fetch_lanes(&self, request: FetchRequest) -> Result<Fetched> {
        let arguments = Bind::new()
            .text(request.route.as_str())
            .value(request.session.0)
            .value(request.seqs.clone())
            .done()?;
        let rows = self.run(Traffic::Relay, Again::Always, &self.sql().lanes_fetch, arguments).await?;
        let Some((head, rows)) = rows.split_first() else { return Err(unreadable()) };
        let here: bool = head.try_get(READ_COLUMNS + 1).map_err(|_| unreadable())?;
        let mut fetched = Fetched::nothing(time(head.try_get(READ_COLUMNS + 2).map_err(|_| unreadable())?));
        fetched.lost = !here;
        for row in rows {
            self.add_fetched(row, &request.route, &mut fetched)
                .map_err(|error| classify(error, Phase::Before))?;
        }
        // A few, in the order of the index or not.
        fetched.entries.sort_unstable_by_key(|entry| entry.seq);
        if self.note(&request.route, request.session, &fetched.entries, &fetched.undecodable).await? {
            return Ok(fetched);
        }
        let mut lost = Fetched::nothing(fetched.now);
        lost.lost = true;
        Ok(lost)
    }

    fn add_fetched(&self, row: &PgRow, route: &RouteName, fetched: &mut Fetched) -> sqlx::Result<()> {
        let decoded = decode(row, route)?;
        let fence = Some(Fence(row.try_get(READ_COLUMNS)?));
        sort_out(decoded, fence, &mut fetched.entries, &mut fetched.undecodable);
        Ok(())
    }

    pub(crate) async fn lane_heads(&self, request: HeadsRequest) -> Result<Vec<Head>> {
        let arguments = Bind::new().text(request.route.as_str()).value(numbers(&request.lanes)).done()?;
        let rows = self.run(Traffic::Relay, Again::Always, &self.sql().lanes_heads, arguments).await?;
        let heads: sqlx::Result<_> = rows.iter().map(head_of).collect();
        heads.map_err(|error| classify(error, Phase::Before))
    }
}

/// A row as an entry of its lane, or as one that cannot be read, with the proof that settles it.
fn sort_out(
    decoded: Decoded,
    fence: Option<Fence>,
    entries: &mut Vec<Entry>,
    undecodable: &mut Vec<LaneRow>,
) {
    let Decoded { entry, undecodable: failure } = decoded;
    match failure {
        None => entries.push(entry),
        Some(failure) => {
            let held = Held { seq: entry.seq, fence: fence.unwrap_or(Fence::NONE) };
            let row = Undecodable { held, event_id: Some(entry.event_id), failure };
            undecodable.push(LaneRow { lane: entry.lane.unwrap_or(u8::MAX), row });
        }
    }
}

/// The positions, each in the place of its lane.
pub(super) fn by_lane(positions: &[Position]) -> [Option<Position>; LANES as usize] {
    let mut places = [const { None }; LANES as usize];
    for position in positions {
        if let Some(place) = places.get_mut(usize::from(position.lane)) {
            *place = Some(*position);
        }
    }
    places
}

fn head_of(row: &PgRow) -> sqlx::Result<Head> {
    let lane = u8::try_from(row.try_get::<i16, _>(2)?).unwrap_or(u8::MAX);
    let kind = if row.try_get(3)? { HeadKind::Dead } else { HeadKind::Leased };
    Ok(Head { seq: row.try_get(0)?, key: row.try_get(1)?, lane, kind })
}

pub(super) fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap_or(Timestamp::MIN)
}

fn unreadable() -> Error {
    Error::new(ErrorKind::Corrupt, "the answer to a read of lanes cannot be read")
}
