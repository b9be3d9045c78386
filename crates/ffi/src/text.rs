//! Events of the log as lines of text.

use core::fmt::{self, Write};

use tracing::Event;
use tracing::field::{Field, Visit};

/// What an event says, on one line: its message, and what else it has by name.
#[must_use]
pub fn text_of(event: &Event<'_>) -> String {
    let mut text = Text(String::new());
    event.record(&mut text);
    text.0
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let separator = if self.0.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{separator}{value:?}"),
            name => write!(self.0, "{separator}{name}: {value:?}"),
        };
    }
}
