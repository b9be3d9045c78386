//! Compiles for an MPI, and starts ranks under its launcher.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::geteuid;
use rustix::thread::{CpuSet, sched_getaffinity};

use super::{Kind, Mpi};
use crate::bounded;
use crate::failure::Failure;
use crate::job::{Job, root, target};

/// The program that measures an MPI.
pub(crate) const PATTERNS: &str = "benches/mpi/patterns.c";

/// Far more than two ranks need to meet.
const START: Duration = Duration::from_secs(60);

/// Where ranks run. The launcher itself has to be confined to the same CPUs, as [`bounded::run`]
/// does; launchers count and number the CPUs that they may use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placement<'a> {
    /// Rank i on the i-th of these CPUs alone.
    OneEach(&'a [usize]),
    /// The kernel places all ranks on the launcher's CPUs.
    Free,
}

/// What other software reads from the environment: an MPI, or a launcher around this program, must
/// not be steered by what was meant for something else.
const FOREIGN: [&str; 11] = [
    "OMPI_", "PRTE_", "PMIX_", "PMI_", "I_MPI_", "MPICH_", "MPIR_", "HYDRA_", "FI_", "UCX_",
    "MPIEXEC_",
];

/// Takes the settings of MPIs, UCX and libfabric out of a command's environment.
pub(crate) fn without_foreign_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if FOREIGN.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
}

/// The CPUs that this program may use, ascending.
pub(crate) fn allowed_cpus() -> std::io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect())
}

impl Mpi {
    /// Compiles one C file. The wheels' own `mpicc` does not always know where it lies.
    pub(crate) fn compile(&self, source: &Path, program: &Path) -> Result<(), Failure> {
        let lib = self.root.join("lib");
        Job::new("cc", 2)
            .args(&["-std=c11", "-O2", "-Wall", "-o"])
            .arg(program)
            .arg(source)
            .args(&["-I"])
            .arg(&self.root.join("include"))
            .args(&["-L"])
            .arg(&lib)
            .args(&["-Xlinker", "-rpath", "-Xlinker"])
            .arg(&lib)
            .args(&["-lmpi"])
            .run_aside()
    }

    /// Builds the program that measures: [`PATTERNS`].
    fn patterns(&self) -> Result<PathBuf, Failure> {
        let folder = target().join("compare");
        std::fs::create_dir_all(&folder)
            .map_err(|why| Failure::Missing(format!("{}: {why}", folder.display())))?;
        let program = folder.join(format!("patterns-{}", self.kind.name()));
        self.compile(&root().join(PATTERNS), &program)?;
        Ok(program)
    }

    /// Whether programs can be compiled for it and two ranks of them meet; gives the program.
    pub(crate) fn verify(&self) -> Result<PathBuf, String> {
        let program = self.patterns().map_err(|why| why.to_string())?;
        let cpus = allowed_cpus().map_err(|why| why.to_string())?;
        let placement = match cpus.as_slice() {
            [_, _, ..] => Placement::OneEach(&cpus[..2]),
            _ => Placement::Free,
        };
        let mut command = self.mpiexec(2, placement);
        command.arg(&program).args(["start", "0"]);
        let ended = bounded::run(command, &cpus, START);
        match ended.explain() {
            Some(why) => Err(why),
            None if ended.out.contains("rank 1 cpus") => Ok(program),
            None => Err(format!(
                "two ranks did not meet; they said: {}",
                ended.out.trim()
            )),
        }
    }

    /// The launcher for `ranks` ranks on this node; the program and its arguments are to be added.
    pub(crate) fn mpiexec(&self, ranks: u32, placement: Placement<'_>) -> Command {
        let bin = self.root.join("bin");
        let mut command = Command::new(bin.join(match self.kind {
            Kind::Openmpi => "mpiexec",
            Kind::Mpich | Kind::Intelmpi => "mpiexec.hydra",
        }));
        without_foreign_settings(&mut command);
        // Another MPI's helpers of the same name would be found otherwise.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(bin).chain(std::env::split_paths(&path));
        if let Ok(path) = std::env::join_paths(folders) {
            command.env("PATH", path);
        }
        match self.kind {
            Kind::Mpich => {
                if let Placement::OneEach(_) = placement {
                    command.args(["-bind-to", "hwthread"]);
                }
            }
            Kind::Openmpi => {
                if geteuid().is_root() {
                    command.arg("--allow-run-as-root");
                }
                command.args(match placement {
                    Placement::OneEach(_) => &[
                        "--use-hwthread-cpus",
                        "--map-by",
                        "hwthread",
                        "--bind-to",
                        "hwthread",
                    ][..],
                    Placement::Free => &["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"],
                });
            }
            Kind::Intelmpi => {
                command
                    .env("I_MPI_ROOT", &self.root)
                    .env("I_MPI_FABRICS", "shm")
                    .env("FI_PROVIDER_PATH", self.root.join("lib"));
                match placement {
                    Placement::OneEach(cpus) => {
                        let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
                        command.env("I_MPI_PIN_PROCESSOR_LIST", list.join(","));
                    }
                    Placement::Free => {
                        command.env("I_MPI_PIN", "0");
                    }
                }
            }
        }
        command.args(["-n", &ranks.to_string()]);
        command
    }
}
