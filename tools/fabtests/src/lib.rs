//! libfabric's own tests, fabtests, over limic's provider.
//!
//! - [`build`] builds fabtests out of a folder that the user names, or that [`source`] fetches.
//! - [`list`] reads which tests there are out of fabtests' own script, and [`exclude`] which of
//!   them are left out, and which test what limic does not offer: files name both, with reasons.
//! - [`processes`] runs a test: one process, a server and a client, or several ranks. [`verdict`]
//!   judges how they ended, [`report`] counts and prints.
//!
//! fabtests' script does not run them, because at its end it kills every process whose name begins
//! as theirs do. `cargo xtask` starts this program, so that nobody else waits until it is compiled.

mod build;
mod exclude;
mod list;
mod processes;
mod report;
mod source;
mod verdict;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use limic_peers::build_provider;
use limic_runner::{Failure, console, cpus};

use exclude::Patterns;
use list::TestLists;
use processes::{Processes, Provider};
use report::Report;

/// What to run.
#[derive(Debug, Args)]
pub struct Fabtests {
    /// The folder of fabtests' source, in place of the distribution's
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// The folder below which a libfabric of the same version is installed, in place of the
    /// distribution's
    #[arg(long, value_name = "PREFIX", requires = "source")]
    libfabric: Option<PathBuf>,
    /// A provider of that libfabric that is tested beside limic; what it does is no failure
    #[arg(long, value_name = "PROVIDER")]
    beside: Option<String>,
    /// Which classes of tests; `short` is `standard` with five rounds
    #[arg(
        long = "class",
        value_enum,
        value_delimiter = ',',
        default_value = "unit,functional,short"
    )]
    classes: Vec<Class>,
    /// The longest that a test may take; one that takes longer has no result
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    limit: u64,
    /// Run only tests whose command holds this
    #[arg(long, value_name = "NAME", default_value = "")]
    filter: String,
}

/// A class of tests, as fabtests' script names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Class {
    Unit,
    Functional,
    Short,
    Standard,
    Threaded,
    Complex,
    Multinode,
}

impl Class {
    /// Its name, as in the script.
    fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Functional => "functional",
            Self::Short => "short",
            Self::Standard => "standard",
            Self::Threaded => "threaded",
            Self::Complex => "complex",
            Self::Multinode => "multinode",
        }
    }
}

/// `cargo xtask fabtests`.
///
/// # Errors
/// If the tests cannot be built, or one does not end as expected.
pub fn run(wanted: &Fabtests) -> Result<(), Failure> {
    let source = match &wanted.source {
        Some(named) => named.clone(),
        None => source::of_distribution()?,
    };
    let built = build::build(&source, wanted.libfabric.as_deref())?;
    let lists = TestLists::read(&built.source)?;
    let excluded = Patterns::committed(exclude::EXCLUDED)?;
    let not_offered = Patterns::committed(exclude::NOT_OFFERED)?;
    let cpus = cpus::allowed()
        .map_err(|why| Failure::Missing(format!("the CPUs of this process: {why}")))?;
    let processes = |provider, excluded| Processes {
        built: &built,
        cpus: &cpus,
        provider,
        limit: Duration::from_secs(wanted.limit),
        excluded,
    };
    let limic = Provider {
        name: "limic".to_owned(),
        folder: Some(build_provider()?),
    };
    let mut providers = vec![processes(limic, excluded)];
    if let Some(name) = &wanted.beside {
        let excluded = Patterns::of_provider(&built.source, name)?;
        let other = Provider {
            name: name.clone(),
            folder: None,
        };
        providers.push(processes(other, excluded));
    }
    let names = providers.iter().map(|each| each.provider.name.clone());
    let mut report = Report::new(names.collect());
    for class in &wanted.classes {
        console::step(&format_args!(
            "fabtests {}: {}",
            built.version,
            class.name()
        ));
        for test in lists.of(*class)? {
            if !test.words.contains(&wanted.filter) {
                continue;
            }
            for (place, provider) in providers.iter().enumerate() {
                let mut verdict = provider.run(&test)?;
                // What another provider offers is not known here.
                if place == 0 {
                    let not_offered = not_offered.hold(&built.version, &test.words);
                    verdict = verdict.expected(not_offered);
                }
                report.add(*class, place, &test, verdict);
            }
        }
    }
    report.end()
}
