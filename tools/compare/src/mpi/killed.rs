//! A rank is killed in the middle of its messages. The launcher ends the job, or the other ranks
//! get an error from their MPI. Nothing hangs, and nothing is left behind.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use limic_peers::Placement;
use limic_runner::timeout::{self, Ended};
use rustix::process::{Pid, test_kill_process};
use tempfile::TempDir;

use super::over::OverLimic;
use crate::compare::Before;

/// The longest that a job may take whose rank is killed.
const LIMIT: Duration = Duration::from_secs(60);
/// Three, so that one of the survivors does not talk to the killed rank when that dies.
const RANKS: u32 = 3;
/// How long processes may take to end once their launcher has gone.
const GOING: Duration = Duration::from_secs(5);

/// The launcher ends the job.
pub(super) fn job(over: &OverLimic, program: &Path, cpus: &[usize]) -> Result<String, String> {
    let mut command = over.mpiexec(RANKS, Placement::Free);
    command.arg(program);
    let traces = Traces::before(&mut command)?;
    let ended = timeout::run(command, cpus, LIMIT);
    all_gone(&ended)?;
    let left = traces.left()?;
    match ended.failure {
        Some(why) => Ok(format!("the launcher ended the job: {why}; {left}")),
        None => Err("the launcher says that all went well".to_owned()),
    }
}

/// Runs a rank, and stays after the rank's end until a survivor has reported an error. So the
/// launcher sees no process die before the other ranks have their error.
const KEEPS_ITS_PLACE: &str = r#"
    "$0" "$1"
    n=0
    until grep -q "Connection reset\|: error: " "$1" || [ $n = 200 ]; do
        sleep 0.1
        n=$((n + 1))
    done"#;

/// The launcher sees no process die, and the survivors get an error from their MPI.
pub(super) fn survivors(
    over: &OverLimic,
    program: &Path,
    cpus: &[usize],
) -> Result<String, String> {
    let words = program.with_extension("words");
    // An earlier run may have left it.
    let _ = std::fs::remove_file(&words);
    let mut command = over.mpiexec(RANKS, Placement::Free);
    command
        .args(["/bin/sh", "-c", KEEPS_ITS_PLACE])
        .args([program, &words]);
    let traces = Traces::before(&mut command)?;
    let ended = timeout::run(command, cpus, LIMIT);
    let text = std::fs::read_to_string(&words).unwrap_or_default();
    all_gone(&ended)?;
    let left = traces.left()?;
    // The MPI gives the error to the program, or ends the process with it.
    let mut errors = text.lines().filter(|line| {
        line.contains("Connection reset by peer")
            || (line.starts_with("rank ") && line.contains(": error: "))
    });
    match errors.next() {
        Some(line) => Ok(format!("survivors got: {}; {left}", line.trim())),
        None => Err(format!(
            "no survivor got an error; they said: {}",
            text.trim()
        )),
    }
}

/// Checks that a job has ended by itself, and all of its processes with it.
fn all_gone(ended: &Ended) -> Result<(), String> {
    if ended.hung {
        return Err(ended.explain().unwrap_or_default());
    }
    let processes: Vec<Pid> = ended
        .out
        .lines()
        .filter_map(|line| line.split_once(" is process ")?.1.split(' ').next())
        .filter_map(|process| Pid::from_raw(process.parse().ok()?))
        .collect();
    if processes.len() != RANKS as usize {
        return Err(format!("{} of {RANKS} ranks have begun", processes.len()));
    }
    let begin = Instant::now();
    while processes.iter().any(|process| lives(*process)) {
        if begin.elapsed() > GOING {
            return Err("a process of the job is still there".to_owned());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The state before a job, to tell what the job leaves behind in file systems. limic must leave
/// nothing: its segments are memory of the processes, and its sockets have no files. MPIs leave
/// files of their own.
struct Traces {
    segments: Before,
    /// For the temporary files of the job alone.
    folder: TempDir,
}

impl Traces {
    /// Gives the job a folder of its own.
    fn before(command: &mut Command) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("limic-killed-").tempdir();
        let folder = folder.map_err(|why| format!("no folder for temporary files: {why}"))?;
        command.env("TMPDIR", folder.path());
        Ok(Self {
            segments: Before::now(),
            folder,
        })
    }

    /// Names what has been left; it is an error if a name is limic's.
    fn left(self) -> Result<String, String> {
        let of_limic = |name: &std::ffi::OsStr| name.to_string_lossy().contains("limic");
        let segments = self.segments.new_names();
        if let Some(name) = segments.iter().find(|name| of_limic(name)) {
            return Err(format!("limic has left /dev/shm/{}", name.display()));
        }
        let removed = self.segments.remove_new().into_iter();
        let mut left: Vec<String> = removed.map(|path| path.display().to_string()).collect();
        let entries = std::fs::read_dir(self.folder.path()).into_iter().flatten();
        for name in entries.flatten().map(|entry| entry.file_name()) {
            if of_limic(&name) {
                return Err(format!("limic has left {} in TMPDIR", name.display()));
            }
            left.push(format!("$TMPDIR/{}", name.display()));
        }
        if left.is_empty() {
            return Ok("nothing is left".to_owned());
        }
        left.sort_unstable();
        Ok(format!("limic left nothing, the MPI {}", left.join(" ")))
    }
}

/// Whether a process runs. A process that has ended and waits for its parent does not.
fn lives(process: Pid) -> bool {
    let status = format!("/proc/{}/stat", process.as_raw_nonzero());
    let ended = std::fs::read_to_string(status).is_ok_and(|text| {
        let state = text.rsplit(") ").next();
        state.is_some_and(|state| state.starts_with('Z'))
    });
    test_kill_process(process).is_ok() && !ended
}
