//! One endpoint for each path that is measured, so that all paths are measured by the same
//! processes in turn.

use limic::raw::OneSided;
use limic::settings::{ByteSize, Path, PathSet, Settings, SettingsBuilder, SettingsError};
use limic::{
    ADDRESS_LEN, Barrier, Endpoint, HybridEndpoint, KernelEndpoint, Peer, RegionId, RegionKey,
};
use limic_measure::control::Control;
use limic_measure::lanes::VerbsLane;
use limic_measure::options::Grouping;
use limic_policy::INLINE_CAPACITY;

use super::args::{Pattern, Wanted};

/// A rank as a pattern sees it: an endpoint, and the rank at the other end of its pair.
#[derive(Debug)]
pub(super) struct Team<E = HybridEndpoint> {
    pub(super) endpoint: E,
    pub(super) rank: u32,
    pub(super) partner: Peer,
    pub(super) partner_rank: u32,
    /// All ranks, this one too, in their order.
    pub(super) peers: Vec<Peer>,
    /// How it meets them.
    pub(super) barrier: Barrier,
    /// Whether this one is of the half that sends first.
    pub(super) first: bool,
    /// Whether messages are loans.
    pub(super) loans: bool,
    /// Where messages are read from, if that is a region of the partner.
    pub(super) region: Option<Exposed>,
    /// The CPU that its thread belongs on, where it runs in a thread of its own.
    pub(super) cpu: Option<usize>,
}

/// A path, and the ranks that this process runs over it: one; or, for the path within one process,
/// all of them in the process of rank 0 and none elsewhere.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) wanted: Wanted,
    /// How it goes over verbs, if it was asked for there.
    pub(super) verbs: Option<VerbsLane>,
    pub(super) teams: Vec<Team>,
    /// In the place of these for messages that the kernel matches: this process's rank, or why
    /// there is none.
    pub(super) kernel: Option<Result<Team<KernelEndpoint>, String>>,
}

/// The settings that force a path. Where it cannot carry a message, another one does, so that
/// nothing hangs; the counters tell.
pub(super) fn settings(wanted: Wanted) -> Result<Settings, SettingsError> {
    builder(wanted).build()
}

/// The same, before anything else is set.
pub(super) fn builder(wanted: Wanted) -> SettingsBuilder {
    let builder = Settings::builder();
    let fallback = PathSet::EMPTY
        .with(Path::Inline)
        .with(Path::Eager)
        .with(Path::Pipeline);
    let Some(path) = wanted.path() else {
        return builder;
    };
    // What goes ahead of a receiver that lags goes another way than the one that is measured.
    let builder = builder.allowed(fallback.with(path)).skew(false);
    match path {
        Path::Inline => builder.inline_max(INLINE_CAPACITY),
        Path::Eager => builder.inline_max(0).eager_max(u64::MAX),
        Path::Pipeline | Path::Cma | Path::SplitCopy | Path::Kmod => {
            builder.inline_max(0).eager_max(0).long_path(path)
        }
        Path::SameProcess => builder.inline_max(0).eager_max(0),
        // Both sides may copy out of such memory.
        Path::PeerReadable => builder.allowed(fallback.with(path).with(Path::SplitCopy)),
        _ => builder,
    }
}

impl Lane {
    /// Collective: opens the endpoints and makes them known to each other.
    ///
    /// # Errors
    /// The settings of the environment make no sense.
    pub(super) fn open(
        wanted: Wanted,
        control: &Control,
        cpus: &[Option<usize>],
    ) -> Result<limic::Result<Self>, SettingsError> {
        let settings = settings(wanted)?;
        Ok(Self::connect(wanted, settings, control, cpus))
    }

    /// Collective, as [`Lane::open`]: all peers over verbs.
    pub(super) fn over_verbs(
        lane: VerbsLane,
        control: &Control,
        cpus: &[Option<usize>],
    ) -> Result<limic::Result<Self>, SettingsError> {
        let settings = lane.settings()?;
        let opened = Self::connect(Wanted::Hybrid, settings, control, cpus);
        Ok(opened.map(|opened| Self {
            verbs: Some(lane),
            ..opened
        }))
    }

    /// Collective, as [`Lane::open`], with settings of one's own.
    pub(super) fn connect(
        wanted: Wanted,
        settings: Settings,
        control: &Control,
        cpus: &[Option<usize>],
    ) -> limic::Result<Self> {
        let size = control.size();
        let mut teams = Vec::new();
        let mut kernel = None;
        if wanted == Wanted::Kernel {
            kernel = Some(in_kernel(settings, control)?);
        } else if wanted == Wanted::Process {
            if control.rank() == 0 {
                let endpoints = (0..size).map(|_| HybridEndpoint::with(settings.clone()));
                let endpoints: Vec<HybridEndpoint> = endpoints.collect::<Result<_, _>>()?;
                let addresses: Vec<[u8; ADDRESS_LEN]> = endpoints
                    .iter()
                    .map(|endpoint| endpoint.address().to_bytes())
                    .collect();
                for (rank, endpoint) in (0..size).zip(endpoints) {
                    let cpu = cpus.get(rank as usize).copied().flatten();
                    teams.push(Team::new(control, wanted, endpoint, rank, &addresses, cpu)?);
                }
            }
        } else {
            let region = match wanted {
                Wanted::KmodRegion => match in_kernel(settings.clone(), control)? {
                    Ok(team) => Some(Exposed::of(team, control)?),
                    Err(why) => {
                        kernel = Some(Err(why));
                        None
                    }
                },
                _ => None,
            };
            let endpoint = HybridEndpoint::with(settings)?;
            let addresses = control.gather(&endpoint.address().to_bytes())?;
            let rank = control.rank();
            let mut team = Team::new(control, wanted, endpoint, rank, &addresses, None)?;
            team.region = region;
            teams.push(team);
        }
        Ok(Self {
            wanted,
            verbs: None,
            teams,
            kernel,
        })
    }

    /// Why messages of this size cannot go this way, if that is known without trying.
    pub(super) fn refusal(&self, pattern: Pattern, bytes: usize) -> Option<String> {
        if let Some(Err(why)) = &self.kernel {
            return Some(why.clone());
        }
        match self.wanted {
            Wanted::KmodRegion if !matches!(pattern, Pattern::Latency | Pattern::Bandwidth) => {
                Some(format!("{} reads from no regions", pattern.name()))
            }
            Wanted::KmodRegion if bytes > REGION => {
                Some(format!("the region has {} bytes", ByteSize(REGION as u64)))
            }
            Wanted::Loan if pattern.grouping() == Grouping::All => {
                Some(format!("{} sends no loans", pattern.name()))
            }
            Wanted::Inline if bytes as u64 > INLINE_CAPACITY => {
                Some(format!("holds at most {} bytes", ByteSize(INLINE_CAPACITY)))
            }
            Wanted::Hybrid | Wanted::Inline | Wanted::Loan | Wanted::Kernel => None,
            _ if bytes == 0 => Some("an empty message has no bytes to copy, it goes inline".into()),
            _ => None,
        }
    }
}

/// What happened instead of the path that was asked for, and what to do.
pub(super) fn skipped_path(asked: Path, taken: Option<Path>) -> String {
    let taken = taken.map_or("nothing", Path::name);
    let why = match asked {
        Path::Cma | Path::SplitCopy => match limic_copy::explain().available {
            Err(refused) => refused.to_string(),
            Ok(()) => "limic info says whether these processes may use it".to_owned(),
        },
        Path::Kmod => match limic_copy::Kmod::open() {
            Err(refused) => refused.to_string(),
            Ok(_) => "the log says why".to_owned(),
        },
        Path::Eager => "longer than an eager message may be".to_owned(),
        Path::Loan => "see LIMIC_LOAN_BYTES".to_owned(),
        Path::PeerReadable => "so short a message gains nothing by it".to_owned(),
        _ => "limic info shows what is on".to_owned(),
    };
    format!("went by {taken} ({why})")
}

/// Bytes of a region that is read from.
const REGION: usize = 4 << 20;
/// Regions begin on a page, as applications' large arrays do.
const PAGE: usize = 4096;

/// What this rank sends and its partner reads: regions that stay exposed, and so pinned, all the
/// time.
#[derive(Debug)]
pub(super) struct Exposed {
    endpoint: KernelEndpoint,
    partner: Peer,
    own: (RegionId, u64),
    theirs: (RegionKey, u64),
}

impl Exposed {
    /// Collective: exposes a region and learns the partner's.
    fn of(team: Team<KernelEndpoint>, control: &Control) -> limic::Result<Self> {
        let memory = vec![1; REGION + PAGE];
        let skip = memory.as_ptr().align_offset(PAGE) as u64 % PAGE as u64;
        let (own, key) = team.endpoint.expose(memory)?;
        let keys = control.gather(&key.to_le_bytes())?;
        let skips = control.gather(&skip.to_le_bytes())?;
        let of_partner = |words: &[[u8; 8]]| {
            let word = words.get(team.partner_rank as usize);
            word.map_or(0, |word| u64::from_le_bytes(*word))
        };
        Ok(Self {
            endpoint: team.endpoint,
            partner: team.partner,
            own: (own, skip),
            theirs: (RegionKey(of_partner(&keys)), of_partner(&skips)),
        })
    }

    /// Puts a message where the partner reads it.
    pub(super) fn put(&self, message: &[u8]) -> limic::Result<()> {
        let (own, skip) = self.own;
        self.endpoint.region_write(own, skip, message)
    }

    /// Reads the partner's message. One system call.
    pub(super) fn fetch(&self, into: &mut [u8]) -> limic::Result<()> {
        let (theirs, skip) = self.theirs;
        self.endpoint.read(self.partner, theirs, skip, into)
    }
}

/// Collective: this rank's endpoint over messages that the kernel matches. All ranks have one, or
/// none.
fn in_kernel(
    settings: Settings,
    control: &Control,
) -> limic::Result<Result<Team<KernelEndpoint>, String>> {
    let opened = KernelEndpoint::with(settings);
    let address = match &opened {
        Ok(endpoint) => endpoint.address().to_bytes(),
        Err(_) => [0; ADDRESS_LEN],
    };
    let addresses = control.gather(&address)?;
    match opened {
        Ok(_) if addresses.contains(&[0; ADDRESS_LEN]) => {
            Ok(Err("another rank could not open /dev/limic".to_owned()))
        }
        Ok(endpoint) => {
            let rank = control.rank();
            Team::new(control, Wanted::Kernel, endpoint, rank, &addresses, None).map(Ok)
        }
        Err(why) => Ok(Err(why.to_string())),
    }
}

impl<E: Endpoint> Team<E> {
    fn new(
        control: &Control,
        wanted: Wanted,
        endpoint: E,
        rank: u32,
        addresses: &[[u8; ADDRESS_LEN]],
        cpu: Option<usize>,
    ) -> limic::Result<Self> {
        let half = addresses.len() as u32 / 2;
        let first = rank < half;
        let partner_rank = if first { rank + half } else { rank - half };
        // All of them, in this order: peers then have the ranks' numbers, also in messages.
        let peers = addresses.iter().map(|address| endpoint.connect(address));
        let peers: Vec<Peer> = peers.collect::<limic::Result<_>>()?;
        let partner = peers[partner_rank as usize];
        Ok(Self {
            endpoint,
            rank,
            partner,
            partner_rank,
            peers,
            barrier: control.barrier_of(rank)?,
            first,
            loans: wanted == Wanted::Loan,
            region: None,
            cpu,
        })
    }
}
