//! Modules under loom whose crates are too large for it: each is compiled here once more, with
//! loom's atomics. `cargo xtask loom` runs them; without `--cfg loom` there is nothing here.

#![cfg(all(loom, test))]

#[path = "../../../crates/ofi/src/alone.rs"]
mod alone;
#[path = "../../../crates/ofi/src/favour.rs"]
mod favour;
#[path = "../../../crates/pools/src/arena/thread_rc.rs"]
mod thread_rc;
#[path = "../../../crates/ofi/src/turns.rs"]
#[expect(dead_code, reason = "calls that give up after a time are no model's")]
mod turns;

mod shares;
mod turns_taken;
