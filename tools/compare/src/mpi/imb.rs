//! Intel's MPI benchmarks: binaries for MPICH's ABI, which come with Intel MPI.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use limic_peers::{Environment, Kind, Placement};
use limic_runner::folders::target;

use super::proof::{Expected, judge};
use super::{Checks, Extent, OverLimic};

/// A suite. All but the last were built without their check of the data.
struct Suite {
    name: &'static str,
    options: &'static [&'static str],
    /// What it prints at its end.
    end: &'static str,
}

/// What a suite says of data that is wrong. It ends well all the same.
const WRONG_DATA: &str = "CHECK FAILURES";

/// A suite in a short run.
const fn short(name: &'static str) -> Suite {
    Suite {
        name,
        options: &["-iter", "30", "-time", "0.2"],
        end: "All processes entering MPI_Finalize",
    }
}

const MESSAGES: Suite = short("IMB-MPI1");
const ONE_SIDED: Suite = short("IMB-RMA");
const NON_BLOCKING: Suite = short("IMB-NBC");
const THREADS: Suite = Suite {
    name: "IMB-MT",
    options: &[
        "-thread_level",
        "multiple",
        "-check",
        "yes",
        "-repeat",
        "10",
        "-count",
        "1,1024,65536",
    ],
    end: "Benchmarking AllReduceMT",
};

/// Benchmarks of the quick check.
const QUICK: [&str; 4] = ["PingPong", "Sendrecv", "Allreduce", "Barrier"];

impl Checks<'_> {
    /// The suites of a folder, as far as this MPI runs such binaries.
    pub(super) fn benchmarks(&mut self, over: &OverLimic, folder: &Path) {
        if !matches!(over.mpi.kind(), Kind::Mpich | Kind::Intelmpi) {
            return;
        }
        if self.extent == Extent::Quick {
            self.suite(over, folder, &MESSAGES, 2, |command| {
                command.args(QUICK);
            });
            return;
        }
        for ranks in [2, 4] {
            for suite in [MESSAGES, ONE_SIDED, NON_BLOCKING] {
                self.suite(over, folder, &suite, ranks, |_| ());
            }
        }
        match openmp() {
            Ok(library) => self.suite(over, folder, &THREADS, 2, |command| {
                find_also_in(command, &library);
                command.env("OMP_NUM_THREADS", "2");
            }),
            Err(why) => {
                let skip = format!("{}: IMB-MT, which needs OpenMP: {why}", over.mpi.title());
                self.summary.skip_check(&skip);
            }
        }
    }

    fn suite(
        &mut self,
        over: &OverLimic,
        folder: &Path,
        suite: &Suite,
        ranks: u32,
        more: impl FnOnce(&mut Command),
    ) {
        let mut command = over.mpiexec(ranks, Placement::Free);
        command.arg(folder.join(suite.name));
        more(&mut command);
        command.args(suite.options);
        let name = format!("{}: {} with {ranks} ranks", over.mpi.title(), suite.name);
        self.prove(&name, command, &[suite.end], |ended| {
            let mut lines = ended.out.lines();
            match lines.find(|line| line.contains(WRONG_DATA)) {
                Some(line) => Err(line.to_owned()),
                None => judge(&ended.out, &ended.err, ranks, Expected::Messages),
            }
        });
    }
}

/// The folder of Intel's OpenMP library, which is installed from its wheel.
fn openmp() -> Result<PathBuf, String> {
    let folder = target().join("mpi/openmp");
    let library = folder.join("lib");
    if !library.join("libiomp5.so").is_file() {
        let environment = Environment::fresh(&folder)?;
        // Alone: the library depends on no package.
        environment.install_kept(&["--no-deps", "intel-openmp"])?;
    }
    Ok(library)
}

/// Has the programs of a command look for libraries in one more folder.
fn find_also_in(command: &mut Command, folder: &Path) {
    const NAME: &str = "LD_LIBRARY_PATH";
    let known = command.get_envs().find(|(name, _)| *name == NAME);
    let mut all = match known {
        Some((_, Some(folders))) => folders.to_owned(),
        _ => OsString::new(),
    };
    if !all.is_empty() {
        all.push(":");
    }
    all.push(folder);
    command.env(NAME, all);
}
