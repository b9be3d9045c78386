//! A rank is killed in the middle of its messages: the launcher ends the job, or the other ranks get the MPI's error.
//! Nothing hangs, and nothing stays.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};

use crate::bounded::{self, Ended};
use crate::compare::Before;
use crate::mpi::library::Library;
use crate::peers::Placement;

/// The longest that a job may take, of which a rank is killed.
const LIMIT: Duration = Duration::from_secs(60);
/// Three, so that one of the survivors is not talking to the killed one when it dies.
const RANKS: u32 = 3;
/// How long ended processes may be on their way out, with the launcher gone.
const GOING: Duration = Duration::from_secs(5);

/// The launcher takes the job down.
pub(super) fn job(
    library: &Library,
    program: &Path,
    provider: &Path,
    cpus: &[usize],
) -> Result<String, String> {
    let mut command = library.mpiexec(RANKS, Placement::Free, provider);
    command.arg(program);
    let traces = Traces::before(&mut command)?;
    let ended = bounded::run(command, cpus, LIMIT);
    gone(&ended)?;
    let left = traces.left()?;
    match ended.failure {
        Some(why) => Ok(format!("the launcher ended the job: {why}; {left}")),
        None => Err("the launcher says that all went well".to_owned()),
    }
}

/// Runs a rank, and holds its place after its end until somebody has written of an error: the launcher sees nobody die
/// before the other ranks have had their error.
const KEEPS_ITS_PLACE: &str = r#"
    "$0" "$1"
    n=0
    until grep -q "Connection reset\|: error: " "$1" || [ $n = 200 ]; do
        sleep 0.1
        n=$((n + 1))
    done"#;

/// The launcher sees nobody die, and the survivors get an error from their MPI.
pub(super) fn survivors(
    library: &Library,
    program: &Path,
    provider: &Path,
    cpus: &[usize],
) -> Result<String, String> {
    let words = program.with_extension("words");
    // It may be there from another time.
    let _ = std::fs::remove_file(&words);
    let mut command = library.mpiexec(RANKS, Placement::Free, provider);
    command
        .args(["/bin/sh", "-c", KEEPS_ITS_PLACE])
        .args([program, &words]);
    let traces = Traces::before(&mut command)?;
    let ended = bounded::run(command, cpus, LIMIT);
    let text = std::fs::read_to_string(&words).unwrap_or_default();
    gone(&ended)?;
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

/// That a job has ended by itself, and all of its processes with it.
fn gone(ended: &Ended) -> Result<(), String> {
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

/// What there was before a job, to tell what it leaves behind in file systems. limic's segments are memory of the
/// processes, and its sockets have no files: there is to be nothing of it. MPIs leave files of their own.
struct Traces {
    segments: Before,
    folder: Folder,
}

/// The folder for temporary files of a job alone. It goes whatever became of the job.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed disturbs nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Traces {
    /// The job gets a folder of its own.
    fn before(command: &mut Command) -> Result<Self, String> {
        let name = format!("limic-killed-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        command.env("TMPDIR", &folder);
        Ok(Self {
            segments: Before::now(),
            folder: Folder(folder),
        })
    }

    /// Names what has been left; it is an error if that is limic's.
    fn left(self) -> Result<String, String> {
        let of_limic = |name: &std::ffi::OsStr| name.to_string_lossy().contains("limic");
        let segments = self.segments.new_names();
        if let Some(name) = segments.iter().find(|name| of_limic(name)) {
            return Err(format!("limic has left /dev/shm/{}", name.display()));
        }
        let mut left: Vec<String> = Vec::new();
        for path in self.segments.remove_new() {
            left.push(path.display().to_string());
        }
        let entries = std::fs::read_dir(&self.folder.0).into_iter().flatten();
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

/// Whether a process runs; one that has ended but was not asked for yet does not.
fn lives(process: Pid) -> bool {
    let status = format!("/proc/{}/stat", process.as_raw_nonzero());
    let ended = std::fs::read_to_string(status)
        .is_ok_and(|text| text.rsplit(") ").next().is_some_and(|t| t.starts_with('Z')));
    test_kill_process(process).is_ok() && !ended
}
