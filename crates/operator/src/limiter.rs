//! How many requests are under way at once: as many as the API server can bear.
//!
//! A fixed number of requests per second is too much for a small server and too little for a large one. So the
//! number of requests at once grows by one per round of quick answers and is halved when the server is overloaded
//! or slow: the rule that keeps the internet from congestion.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

use crate::options::Effort;

/// After a cut the answers to requests that were already under way say nothing new.
const SETTLING: Duration = Duration::from_secs(1);
/// Nobody is asked to wait longer than this, whatever `Retry-After` says.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Hands out permits for requests.
#[derive(Debug)]
pub(crate) struct Limiter {
    permits: Semaphore,
    state: Mutex<State>,
    effort: Effort,
}

#[derive(Debug)]
struct State {
    limit: usize,
    /// Permits to be taken out of use when they come back.
    owed: usize,
    /// Quick answers since the limit last changed.
    quick: usize,
    last_cut: Option<Instant>,
    paused_until: Option<Instant>,
    /// When the requests so far would be over if they came one by one, where their rate is limited.
    spent_until: Option<Instant>,
}

/// Leave to make one request.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    limiter: &'a Limiter,
    permit: Option<SemaphorePermit<'a>>,
    started: Instant,
}

/// How a request went, as far as the server's strength is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// The server answered.
    Fine,
    /// The server has too much to do, and asks to be left alone for a while.
    Too(Option<Duration>),
}

impl Limiter {
    pub(crate) fn new(effort: Effort) -> Self {
        let limit = effort.requests.clamp(effort.fewest_requests.max(1), effort.most_requests.max(1));
        let state = State { limit, owed: 0, quick: 0, last_cut: None, paused_until: None, spent_until: None };
        Self { permits: Semaphore::new(limit), state: Mutex::new(state), effort }
    }

    /// Waits for a permit, first come first served, and for the end of a pause.
    pub(crate) async fn acquire(&self) -> Permit<'_> {
        // The semaphore is never closed; without a permit the request is merely not counted.
        let permit = self.permits.acquire().await.ok();
        if let Some(turn) = self.turn() {
            sleep_until(turn).await;
        }
        while let Some(until) = self.pause() {
            sleep_until(until).await;
        }
        Permit { limiter: self, permit, started: Instant::now() }
    }

    /// How many requests may be under way at once now.
    pub(crate) fn limit(&self) -> usize {
        self.lock().limit
    }

    /// Books a place among the requests of a limited rate; when it is, if not now.
    fn turn(&self) -> Option<Instant> {
        let rate = self.effort.rate?;
        let now = Instant::now();
        let mut state = self.lock();
        let spent = state.spent_until.map_or(now, |until| until.max(now));
        state.spent_until = Some(spent + rate.pause);
        spent.checked_sub(rate.pause.saturating_mul(rate.burst.saturating_sub(1))).filter(|turn| *turn > now)
    }

    fn pause(&self) -> Option<Instant> {
        self.lock().paused_until.filter(|until| *until > Instant::now())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grow(&self, state: &mut State) {
        let busy = self.permits.available_permits() == 0;
        state.quick = state.quick.saturating_add(1);
        if !busy || state.quick < state.limit || state.limit >= self.effort.most_requests {
            return;
        }
        state.quick = 0;
        state.limit += 1;
        if state.owed > 0 {
            state.owed -= 1;
        } else {
            self.permits.add_permits(1);
        }
    }

    fn cut(&self, state: &mut State, pause: Option<Duration>) {
        let now = Instant::now();
        if let Some(pause) = pause {
            let until = now + pause.min(LONGEST_PAUSE);
            state.paused_until = Some(state.paused_until.map_or(until, |before| before.max(until)));
        }
        if state.last_cut.is_some_and(|cut| now.duration_since(cut) < SETTLING) {
            return;
        }
        state.last_cut = Some(now);
        state.quick = 0;
        let limit = (state.limit / 2).max(self.effort.fewest_requests.max(1)).min(state.limit);
        let surplus = state.limit - limit;
        state.limit = limit;
        state.owed += surplus - self.permits.forget_permits(surplus);
    }
}

impl Permit<'_> {
    /// The answer is here.
    pub(crate) fn settle(self, load: Load) {
        let mut state = self.limiter.lock();
        let slow = self.started.elapsed() > self.limiter.effort.slow;
        match load {
            Load::Fine if !slow => self.limiter.grow(&mut state),
            Load::Fine => self.limiter.cut(&mut state, None),
            Load::Too(pause) => self.limiter.cut(&mut state, pause),
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.lock();
        if state.owed > 0
            && let Some(permit) = self.permit.take()
        {
            state.owed -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effort() -> Effort {
        Effort { requests: 8, fewest_requests: 2, most_requests: 10, ..Effort::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn quick_answers_raise_the_limit_only_while_it_is_used_up() {
        let limiter = Limiter::new(effort());
        for _ in 0..100 {
            limiter.acquire().await.settle(Load::Fine);
        }
        assert_eq!(limiter.limit(), 8, "one request at a time proves nothing");
        for _ in 0..40 {
            let mut all = Vec::new();
            for _ in 0..limiter.limit() {
                all.push(limiter.acquire().await);
            }
            all.into_iter().for_each(|permit| permit.settle(Load::Fine));
        }
        assert_eq!(limiter.limit(), 10, "and never beyond the most");
    }

    #[tokio::test(start_paused = true)]
    async fn overload_halves_once_per_round_and_the_surplus_is_taken_out() {
        let limiter = Limiter::new(effort());
        let mut all = Vec::new();
        for _ in 0..8 {
            all.push(limiter.acquire().await);
        }
        for permit in all {
            permit.settle(Load::Too(None));
        }
        assert_eq!(limiter.limit(), 4, "eight answers of one round are one cut");
        assert_eq!(limiter.permits.available_permits(), 4);
        for _ in 0..3 {
            tokio::time::sleep(SETTLING).await;
            limiter.acquire().await.settle(Load::Too(None));
        }
        assert_eq!(limiter.limit(), 2, "never below the fewest");
        assert_eq!(limiter.permits.available_permits(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_counts_as_overload_and_retry_after_is_honoured() {
        let limiter = Limiter::new(effort());
        let permit = limiter.acquire().await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        permit.settle(Load::Fine);
        assert_eq!(limiter.limit(), 4);
        limiter.acquire().await.settle(Load::Too(Some(Duration::from_secs(7))));
        let before = Instant::now();
        limiter.acquire().await.settle(Load::Fine);
        assert_eq!(before.elapsed().as_secs(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limited_rate_lets_a_burst_through_and_then_one_by_one() {
        let rate = Some(crate::options::Rate { pause: Duration::from_millis(100), burst: 3 });
        let limiter = Limiter::new(Effort { rate, ..effort() });
        let begun = Instant::now();
        let mut times = Vec::new();
        for _ in 0..6 {
            limiter.acquire().await.settle(Load::Fine);
            times.push(begun.elapsed().as_millis() / 100);
        }
        assert_eq!(times, [0, 0, 0, 1, 2, 3]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let begun = Instant::now();
        for _ in 0..4 {
            limiter.acquire().await.settle(Load::Fine);
        }
        assert_eq!(begun.elapsed().as_millis() / 100, 1, "quiet does not add up to more than a burst");
    }
}
