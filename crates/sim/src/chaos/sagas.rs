//! Sagas on which every call can fail before its effect, after it, late, or never.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{Sagas, StepSettleRequest, StepsSettled, SweepRequest, Swept};
use pillarbox_core::{Held, Result};

use super::super::rng::Rng;
use super::weather::Weather;
use super::{Chaos, Gate};

/// Wraps sagas: faults by the weather of one relay.
pub(crate) struct ChaosSagas {
    weather: Weather,
    inner: Arc<dyn Sagas>,
}

impl ChaosSagas {
    pub(crate) fn new(inner: Arc<dyn Sagas>, chaos: Chaos, gate: Gate, who: &str, rng: Rng) -> Self {
        Self { weather: Weather::new(chaos, gate, who, rng), inner }
    }
}

#[async_trait]
impl Sagas for ChaosSagas {
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled> {
        let held: Vec<Held> = request.settlements.iter().map(|settlement| settlement.held).collect();
        let fate = self.weather.draw_on(&held);
        let inner = Arc::clone(&self.inner);
        let settled = self.weather.meet(fate, async move { inner.settle_steps(request).await }).await?;
        self.weather.count(true);
        Ok(settled)
    }

    async fn sweep(&self, request: SweepRequest) -> Result<Swept> {
        let fate = self.weather.draw();
        let inner = Arc::clone(&self.inner);
        let swept = self.weather.meet(fate, async move { inner.sweep(request).await }).await?;
        self.weather.count(false);
        Ok(swept)
    }
}
