//! The clock: who has to be greeted again, who is given up, and who is silent for too long.

use core::time::Duration;
use std::time::Instant;

use super::connection::{Connection, Stage};
use super::{ConnectionFailure, Fabric};

/// The time before a greeting is repeated for the first time; it doubles each time, up to
/// [`LONGEST_PAUSE`].
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long a ring is left alone whose writer has not agreed to a pause.
const RING_PAUSE: Duration = Duration::from_millis(1);

impl Fabric {
    /// Repeats greetings whose time has come, gives up those whose time is over, and asks silent
    /// peers.
    pub(super) fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        self.looked_at = now;
        let limit = self.settings.greeting;
        let is_over = |connection: &Connection| match connection.stage {
            Stage::Greeting { since, .. } => now.duration_since(since) > limit,
            Stage::Ready => false,
        };
        if self.connections.values().any(|it| is_over(it)) {
            self.hear_all();
        }
        let mut from = 0;
        while let Some((&number, connection)) = self.connections.range_mut(from..).next() {
            from = number + 1;
            match &mut connection.stage {
                Stage::Greeting {
                    since,
                    next,
                    tries,
                    unsent,
                } => {
                    if now.duration_since(*since) > limit {
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
                        *next = now + (FIRST_PAUSE * (1 << (*tries).min(5))).min(LONGEST_PAUSE);
                        *tries += 1;
                        self.greet(number);
                    }
                }
                Stage::Ready => {
                    let silent = now.duration_since(connection.heard_at.max(connection.pinged_at));
                    if silent > self.settings.keep_alive {
                        self.ping(number);
                    }
                    self.post_again(number);
                    self.flush(number);
                    self.answer_pause(number);
                    self.post_parts(number);
                }
            }
        }
    }

    /// Hears everybody who has answered: it may be long since this side has listened.
    fn hear_all(&mut self) {
        while self.take_completions() {}
        // A packet says as much as a greeting, which may be lost.
        let senders: Vec<u32> = self.arrived.iter().filter_map(|it| it.connection).collect();
        for number in senders {
            self.becomes_ready(number);
        }
    }
}

/// How long a sleeper may sleep.
pub(super) fn longest_sleep(fabric: &Fabric) -> Option<Duration> {
    let pause = |connection: &Connection| match connection.stage {
        Stage::Greeting { next, .. } => next.saturating_duration_since(fabric.looked_at),
        Stage::Ready if connection.must_be_polled() => RING_PAUSE,
        Stage::Ready => fabric.settings.keep_alive,
    };
    fabric.connections.values().map(|it| pause(it)).min()
}
