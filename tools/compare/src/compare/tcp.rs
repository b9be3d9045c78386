//! `cargo xtask compare --tcp`: one rank in each of two network namespaces, and TCP between them.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use limic_peers::{Kind, Machines, Mpi};
use limic_runner::folders::{self, root, target};
use limic_runner::namespaces::Namespaces;
use limic_runner::{Failure, Job, timeout};

use super::field::{Field, Wanted};
use super::outcome::Outcome;
use super::pattern::{Plan, Portion};
use super::reading;
use super::subject::{self, Subject};

/// The loop over bare sockets.
pub(super) const SOCKETS: &str = "benches/tcp/sockets.c";

/// Makes the two machines, and sets up everything that is compared between them.
pub(super) fn field(wanted: &[Wanted], cpus: &[usize]) -> Result<Field, Failure> {
    let machines = Machines::make([&cpus[..1], &cpus[1..]]);
    let machines = Rc::new(machines.map_err(Failure::Missing)?);
    let mut field = Field {
        subjects: vec![Subject::limic()?],
        built: subject::program(),
        ..Field::default()
    };
    let folder = target().join("compare");
    folders::make(&folder)?;
    let program = folder.join("sockets");
    Job::new("cc", 2)
        .args(["-std=c11", "-O2", "-Wall", "-o"])
        .arg(&program)
        .arg(root().join(SOCKETS))
        .run_aside()?;
    field.subjects.extend(Subject::sockets(&program));
    for one in wanted {
        match one.prepare() {
            Ok(subject) => field.subjects.push(subject),
            Err((name, why)) => field.missing.push(format!("{name}: {why}")),
        }
    }
    let subjects = field.subjects.into_iter();
    field.subjects = subjects.map(|one| one.over_tcp(&machines)).collect();
    Ok(field)
}

/// What makes an MPI use TCP alone. Which of its ways over TCP that is, is left to it.
pub(super) fn variables(mpi: &Mpi) -> Vec<(&'static str, String)> {
    let fixed: &[(&str, &str)] = match mpi.kind() {
        Kind::Mpich => &[("FI_PROVIDER", "tcp"), ("UCX_TLS", "tcp,self")],
        Kind::Intelmpi => &[("FI_PROVIDER", "tcp"), ("I_MPI_FABRICS", "ofi")],
        Kind::Openmpi | Kind::Openmpi4 => &[
            ("OMPI_MCA_pml", "ob1"),
            ("OMPI_MCA_btl", "self,tcp"),
            ("OMPI_MCA_btl_tcp_if_include", "eth0"),
        ],
    };
    let fixed = fixed
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()));
    let mut all: Vec<_> = fixed.collect();
    // Without one it says itself what it lacks.
    if let Ok(Some(folder)) = mpi.libfabric() {
        let folder = folder.display().to_string();
        all.push(("I_MPI_OFI_LIBRARY", format!("{folder}/libfabric.so.1")));
        all.push(("LD_LIBRARY_PATH", folder));
    }
    all
}

/// limic's command, started on both machines. Its own words are to be added.
pub(super) fn limic(machines: &Machines) -> Command {
    let mut command = Command::new(subject::program());
    command
        .args(["run", "-n", "2", "--bind", "none", "--launcher"])
        .arg(machines.login())
        .args([
            "--hosts",
            &Namespaces::ADDRESSES
                .map(|host| format!("{host}:1"))
                .join(","),
        ])
        .arg(subject::program())
        .env("LIMIC_FABRIC", "tcp");
    command
}

/// A pattern over bare sockets.
pub(super) fn sockets(
    program: &Path,
    how: &str,
    portion: &Portion,
    plan: &Plan,
    cpus: &[usize],
    machines: Option<&Machines>,
) -> Outcome {
    let mut command = Command::new(program);
    command
        .args([portion.pattern.name(), &plan.seconds.to_string(), how])
        .args(cpus.iter().map(usize::to_string))
        .args(
            machines
                .into_iter()
                .flat_map(|two| two.namespaces().names()),
        )
        .arg(Namespaces::ADDRESSES[0])
        .args(portion.sizes.iter().map(u64::to_string));
    let ended = timeout::run(command, cpus, plan.patience(portion));
    reading::patterns(&ended, portion.sizes.len(), Some(cpus))
}
