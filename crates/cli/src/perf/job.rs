//! Starts the ranks where no launcher has.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use limic_measure::options::Ranks;

use super::notice;
use crate::run;

/// The words of `limic run`, read by its own parser.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Launch {
    #[command(flatten)]
    run: run::Args,
}

/// Starts this same command as the ranks of a job, and gives the job's exit code.
pub(super) fn start(ranks: &Ranks) -> ExitCode {
    let mut words: Vec<OsString> = vec![
        "--ranks".into(),
        ranks.ranks.unwrap_or(2).to_string().into(),
    ];
    if ranks.bind || ranks.no_bind {
        words.push("--bind".into());
        words.push(if ranks.bind { "cpu" } else { "none" }.into());
    }
    words.push("--".into());
    // Still this program if its file was replaced in the meantime.
    words.push(std::env::current_exe().map_or_else(|_| "/proc/self/exe".into(), Into::into));
    words.extend(std::env::args_os().skip(1));
    match Launch::try_parse_from(words) {
        Ok(launch) => run::execute(&launch.run),
        Err(error) => {
            notice(format_args!("starting the ranks: {error}"));
            ExitCode::from(crate::BAD_USAGE)
        }
    }
}
