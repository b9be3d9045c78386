// SPDX-License-Identifier: GPL-2.0

//! `/sys/kernel/debug/limic`: counters and costs.
//!
//! - `measure`: write `1` to set all figures to 0 and measure from now on, `0` to stop. `1 ID`
//!   measures until the session of this id ends, at the latest: who is killed does not leave it on.
//!   It starts as 0.
//! - `counters`: what there is now, and what happened while measuring.
//! - `breakdown`: nanoseconds of each step, by kind of call and size.

use crate::costs::{self, Breakdown};
use crate::counters::{COUNTERS, Counters};
use kernel::debugfs::{Dir, File};
use kernel::fmt;
use kernel::prelude::*;
use kernel::uaccess::UserSliceReader;

/// The files. They go with it.
#[pin_data]
pub(crate) struct Debug {
    #[pin]
    counters: File<&'static Counters>,
    #[pin]
    breakdown: File<Breakdown>,
    #[pin]
    measure: File<Measure>,
    _dir: Dir,
}

/// The switch.
struct Measure;

fn show_counters(counters: &&'static Counters, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    fmt::Display::fmt(*counters, f)
}

fn show_breakdown(breakdown: &Breakdown, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    fmt::Display::fmt(breakdown, f)
}

fn show_measure(_: &Measure, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{}", u8::from(costs::measuring()))
}

fn set_measure(_: &Measure, reader: &mut UserSliceReader) -> Result {
    // Room for the longest id and the end of its line.
    let mut text = [0; 24];
    let text = text.get_mut(..reader.len()).ok_or(EINVAL)?;
    reader.read_slice(text)?;
    let text = core::str::from_utf8(text).map_err(|_| EINVAL)?;
    match text.trim_ascii_end() {
        "0" => costs::stop(),
        "1" => costs::start(0),
        text => {
            let id = text.strip_prefix("1 ").ok_or(EINVAL)?;
            costs::start(id.parse().map_err(|_| EINVAL)?);
        }
    }
    Ok(())
}

impl Debug {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        let dir = Dir::new(c"limic");
        try_pin_init!(Self {
            counters <- dir.read_callback_file(c"counters", &COUNTERS, &show_counters),
            breakdown <- dir.read_callback_file(c"breakdown", Breakdown, &show_breakdown),
            measure <- dir.read_write_callback_file(
                c"measure",
                Measure,
                &show_measure,
                &set_measure,
            ),
            _dir: dir,
        })
    }
}
