//! The clock: who has to be greeted again, who is given up, and who is silent for too long.

use core::time::Duration;
use std::time::Instant;

use super::connection::{Connection, Stage};
use super::rail::Rail;
use super::{ConnectionFailure, Fabric};
use crate::objects::BATCH;

/// The time before a greeting is repeated for the first time; it doubles each time, up to
/// [`LONGEST_PAUSE`].
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(20);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long a ring is left alone whose writer has not agreed to a pause.
const RING_PAUSE: Duration = Duration::from_millis(1);

impl Fabric {
    /// Repeats greetings whose time has come, gives up those whose time is over, and asks silent
    /// peers.
    pub(super) fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        let before = core::mem::replace(&mut self.looked_at, now);
        for Rail { greeter, port, .. } in &mut self.rails {
            greeter.begin_anew(port, now);
        }
        let limit = self.settings.greeting;
        let is_over = |connection: &Connection| {
            let since = connection.waits_since();
            since.is_some_and(|since| now.duration_since(since) > limit)
        };
        if self.connections.values().any(|it| is_over(it)) {
            self.hear_all();
        }
        let mut from = 0;
        while let Some((&number, connection)) = self.connections.range_mut(from..).next() {
            from = number + 1;
            let is_over = is_over(&*connection);
            match &mut connection.stage {
                Stage::Greeting {
                    next,
                    tries,
                    unsent,
                    ..
                } => {
                    if is_over {
                        let why = match unsent {
                            Some(error) => format!("greetings do not go out: {error}"),
                            None => "it may have made no call in that time".to_owned(),
                        };
                        let why = format!(
                            "for {} ms, which LIMIC_VERBS_GREETING_MS allows; {why}",
                            limit.as_millis()
                        );
                        self.end(number, ConnectionFailure::Unreachable(why));
                    } else if now >= *next {
                        *next = now + pause(*tries - 1, LONGEST_PAUSE);
                        let turn = *tries;
                        *tries += 1;
                        self.greet_in_turn(number, turn);
                    }
                }
                Stage::Ready if is_over => self.end(number, self.never_mended()),
                Stage::Ready => {
                    let silent = now.duration_since(connection.heard_at.max(connection.pinged_at));
                    if silent > self.settings.keep_alive {
                        self.ping(number);
                    }
                    self.mend_what_is_due(number);
                    self.go_on(number);
                    self.end_doubt(number, before);
                }
            }
        }
    }

    /// Hears everybody who has answered: it may be long since this side has listened. What comes
    /// meanwhile can wait.
    pub(super) fn hear_all(&mut self) {
        let most = self.rails.iter().map(|rail| rail.completions).max();
        for _ in 0..most.unwrap_or(0).div_ceil(BATCH as u32) {
            if !self.take_completions() {
                break;
            }
        }
        // A packet says as much as a greeting, which may be lost.
        let senders: Vec<u32> = self.arrived.iter().filter_map(|it| it.connection).collect();
        for number in senders {
            self.becomes_ready(number);
        }
    }
}

/// The time until a greeting is repeated that was repeated so often.
pub(super) fn pause(times: u32, longest: Duration) -> Duration {
    (FIRST_PAUSE * (1 << times.min(16))).min(longest)
}

/// How long a sleeper may sleep.
pub(super) fn longest_sleep(fabric: &Fabric) -> Option<Duration> {
    let keep_alive = fabric.settings.keep_alive;
    let until = |next: Instant| next.saturating_duration_since(fabric.looked_at);
    let pause = |connection: &Connection| match connection.stage {
        Stage::Greeting { next, .. } => until(next),
        Stage::Ready if connection.must_be_polled() => RING_PAUSE,
        Stage::Ready => {
            let mends = connection.mends.iter();
            let mends = mends.map(|mend| until(fabric.due_at(mend)));
            let doubt = connection.doubt.as_ref().map(|_| LONGEST_PAUSE);
            mends.chain(doubt).fold(keep_alive, Duration::min)
        }
    };
    let pauses = fabric.connections.values().map(|it| pause(it));
    let rails = fabric.rails.iter();
    let due = rails.filter_map(|rail| rail.greeter.due().map(until));
    pauses.chain(due).min()
}
