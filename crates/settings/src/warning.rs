//! What a user should know and no call returns.

use std::collections::BTreeSet;
use std::io::Write;

use limic_shm::process::LockHere;

/// Says `line`, once in the life of the process: to the subscriber of `tracing` if one takes
/// warnings of limic, else on standard error, unless `LIMIC_LOG` is `off` or `error`.
pub fn say(line: &str) {
    static SAID: LockHere<BTreeSet<String>> = LockHere::new(BTreeSet::new());
    let mut said = SAID.lock();
    let news = said.insert(line.to_owned());
    // A subscriber may do anything, so it gets the line without the lock.
    drop(said);
    if !news {
        return;
    }
    if tracing::enabled!(target: "limic", tracing::Level::WARN) {
        tracing::warn!(target: "limic", "{line}");
    } else if !is_quiet() {
        // Where nobody reads standard error the line is lost.
        let _ = writeln!(
            std::io::stderr(),
            "limic: warning: {line} (LIMIC_LOG=off ends such lines)"
        );
    }
}

fn is_quiet() -> bool {
    let level = std::env::var("LIMIC_LOG").unwrap_or_default();
    ["off", "error"]
        .iter()
        .any(|quiet| level.trim().eq_ignore_ascii_case(quiet))
}
