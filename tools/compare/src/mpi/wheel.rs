//! The Python wheel in a fresh environment, as a new user of an MPI has it.

use std::process::Command;
use std::{env, fs, iter};

use limic_peers::{Environment, without_foreign_settings};
use limic_runner::folders::target;
use limic_runner::{Failure, Job};

/// An environment with MPICH and a program over it.
pub(super) fn environment() -> Result<Environment, String> {
    let environment = Environment::fresh(&target().join("mpi/wheel"))?;
    // The last of them makes the wheel.
    environment.install_kept(&["mpich", "mpi4py", "wheel"])?;
    Ok(environment)
}

/// Makes the wheel and installs it. Returns a shell that runs two ranks.
pub(super) fn shell(environment: &Environment) -> Result<Command, Failure> {
    Job::cargo(&["xtask", "wheel", "--debug"], 20).run_aside()?;
    let folder = target().join("wheel-debug");
    let files = fs::read_dir(&folder).map_err(|why| Failure::file("read", &folder, why))?;
    let mut files = files
        .flatten()
        .map(|file| file.path().display().to_string());
    let wheel = files
        .find(|file| file.ends_with(".whl"))
        .ok_or_else(|| Failure::Missing(format!("{} has no wheel", folder.display())))?;
    let install = environment.install(&["--no-index", &wheel]);
    install.map_err(Failure::Wrong)?;
    environment
        .python()
        .args(["-m", "pip", "check"])
        .run_aside()?;

    let mut shell = Command::new("sh");
    without_foreign_settings(&mut shell);
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = iter::once(environment.programs()).chain(env::split_paths(&path));
    let path = env::join_paths(folders).map_err(|why| Failure::Missing(why.to_string()))?;
    shell.env("PATH", path).env("LIMIC_FI_STATS", "1");
    // As docs/howto-mpi.md has it.
    let line = "limic-env --mpi mpich -- mpiexec -n 2 python -m mpi4py.bench helloworld";
    shell.args(["-c", line]);
    Ok(shell)
}
