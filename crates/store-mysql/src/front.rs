//! The front of what waits: the oldest entries of some routes, found by an index alone, whatever waits behind them.

use std::collections::BTreeMap;

use pillarbox_core::port::LANES;
use pillarbox_core::port::shared::{Asked, Columns};
use pillarbox_core::{NO_LANE, Result};
use sqlx::MySqlConnection;

use crate::bind::Bind;
use crate::lanes::put;
use crate::meant::numbers;
use crate::row::Cells;
use crate::sql::Statements;

/// Entries by their numbers, lowest first: every entry that was looked for, up to the last one that is known.
pub(crate) struct Front<'a> {
    asked: &'a Asked<'a>,
    routes: &'a [Vec<u8>],
    statements: &'a Statements,
    seqs: Vec<i64>,
    /// Nothing is known behind this one. So what is not yet looked at is not looked at behind it either.
    upto: i64,
}

impl<'a> Front<'a> {
    /// Of these routes; of nothing yet.
    pub(crate) fn new(asked: &'a Asked<'a>, routes: &'a [Vec<u8>], statements: &'a Statements) -> Self {
        Self { asked, routes, statements, seqs: vec![], upto: i64::MAX }
    }

    pub(crate) fn seqs(&self) -> &[i64] {
        &self.seqs
    }

    /// Whether there are no others.
    pub(crate) fn is_whole(&self) -> bool {
        self.upto == i64::MAX
    }

    /// So many of what is pending or retrying, or fewer if one lane has more of it than the others. The index has it in the order
    /// of staging, lane by lane.
    pub(crate) async fn waiting(&mut self, most: usize, tx: &mut MySqlConnection) -> Result<()> {
        let lanes = self.lanes(tx).await?;
        // Four times what a lane has of them on average.
        let per_lane = most * 4 / lanes.len() + 8;
        for route in self.routes {
            for lanes in lanes.chunks(usize::from(LANES)) {
                let (sql, arms) = self.statements.meant_lanes.of(lanes.len());
                // An arm that nobody asked for finds nothing: there is no such lane.
                let arms = (0..arms).map(|arm| lanes.get(arm).copied().unwrap_or(-1));
                let bind = arms.fold(Bind::new(), |bind, lane| self.bind(bind.number(lane), route, per_lane));
                let mut found = BTreeMap::new();
                put(&sql.with(bind)?.rows(tx).await?, &mut found)?;
                found.into_values().for_each(|seqs| self.add(seqs, per_lane));
                self.cut(most);
            }
        }
        Ok(())
    }

    /// So many of what came back or has a due time. All of it is read.
    pub(crate) async fn back(&mut self, most: usize, tx: &mut MySqlConnection) -> Result<()> {
        for route in self.routes {
            let bind = self.bind(Bind::new().json(&numbers(self.asked)), route, most);
            let rows = self.statements.meant_back.with(bind)?.rows(tx).await?;
            let seqs = rows.iter().map(|row| Cells::of(row).number()).collect::<Result<Vec<_>>>()?;
            self.add(seqs, most);
            self.cut(most);
        }
        Ok(())
    }

    /// The lanes in which the entries can be: those of the key, or all.
    async fn lanes(&self, tx: &mut MySqlConnection) -> Result<Vec<i64>> {
        let Some(key) = &self.asked.filter.key else { return Ok((0..=NO_LANE.into()).collect()) };
        let rows = self.statements.key_lane.with(Bind::new().bytes(key.as_str()))?.rows(tx).await?;
        let mut lanes = vec![NO_LANE.into()];
        for row in &rows {
            lanes.push(Cells::of(row).number()?);
        }
        Ok(lanes)
    }

    /// The values behind the first one: the route, after and up to which one, and the limit.
    fn bind(&self, bind: Bind, route: &[u8], limit: usize) -> Bind {
        let after = self.asked.filter.after.unwrap_or(i64::MIN);
        bind.bytes(route).number(after).number(self.upto).number(limit.try_into().unwrap_or(i64::MAX))
    }

    /// Adds the first of a part, lowest first. If the limit was reached, nothing is known of what follows there.
    fn add(&mut self, seqs: Vec<i64>, limit: usize) {
        if let Some(last) = seqs.get(limit - 1) {
            self.upto = self.upto.min(*last);
        }
        self.seqs.extend(seqs);
    }

    /// Forgets what is behind the last one that is known, and what is more than so many.
    fn cut(&mut self, most: usize) {
        self.seqs.sort_unstable();
        if let Some(last) = self.seqs.get(most - 1) {
            self.upto = self.upto.min(*last);
        }
        let known = self.seqs.partition_point(|seq| *seq <= self.upto);
        self.seqs.truncate(known);
    }
}
