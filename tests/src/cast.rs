//! Tests with real processes: the test binary starts itself once per rank. In two machines of the
//! lab each starts half of the ranks (`nodes`).

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::nodes::Nodes;
use crate::watch::{Expected, Started, watch};
use crate::{Link, hub};

const RANK: &str = "LIMIC_TEST_RANK";
const RANKS: &str = "LIMIC_TEST_RANKS";
const NAME: &str = "LIMIC_TEST_NAME";
pub(crate) const SEED: &str = "LIMIC_TEST_SEED";
const DIRECTORY: &str = "LIMIC_TEST_DIRECTORY";
/// Of each rank's output, so much is shown.
const SHOWN: usize = 6000;

/// One rank of a test, in its own process.
#[derive(Debug)]
pub struct Rank {
    /// From 0.
    pub rank: u32,
    /// How many there are.
    pub ranks: u32,
    /// The same in all ranks.
    pub seed: u64,
    /// A directory that all ranks share, and that goes away afterwards.
    pub directory: std::path::PathBuf,
    /// The line to the other ranks beside limic.
    pub link: Link,
}

/// How a rank ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// What it printed.
    pub output: String,
    /// Its process id while it lived.
    pub pid: u32,
}

/// What the test that started the ranks sees afterwards.
#[derive(Debug)]
pub struct Report {
    /// By rank; of two machines, those of this one.
    pub ended: Vec<Ended>,
    /// What went through [`Link::exchange`], call by call; empty on the second of two machines.
    pub exchanges: Vec<Vec<Option<Vec<u8>>>>,
    /// The seed that the ranks had.
    pub seed: u64,
}

/// A test of several processes.
#[derive(Debug)]
pub struct Cast {
    name: String,
    ranks: u32,
    limit: Duration,
    killed: Vec<u32>,
    alone: bool,
}

impl Cast {
    /// For the test function of this name: what `cargo test -- --exact` would take.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ranks: 2,
            limit: watchdog(),
            killed: Vec::new(),
            alone: false,
        }
    }

    /// How many processes; 2 by default.
    #[must_use]
    pub fn ranks(mut self, ranks: u32) -> Self {
        self.ranks = ranks;
        self
    }

    /// When the watchdog ends them; a minute by default.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// This rank is expected to end by SIGKILL.
    #[must_use]
    pub fn dies(mut self, rank: u32) -> Self {
        self.killed.push(rank);
        self
    }

    /// No other test of this kind runs meanwhile.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// In the process that `cargo test` runs: starts the ranks, waits for them, and gives the
    /// report. In a rank: runs `body`, and gives `None`.
    ///
    /// # Panics
    /// If a rank fails, with the output of all.
    pub fn run(self, body: impl FnOnce(&Rank)) -> Option<Report> {
        match std::env::var(NAME) {
            Ok(name) => {
                assert_eq!(name, self.name, "a rank of another test came here");
                body(&Rank::of_this_process());
                None
            }
            Err(_) => Some(self.conduct()),
        }
    }

    fn conduct(self) -> Report {
        let _lock = self.alone.then(lock);
        let nodes = Nodes::of_environment();
        let mut seed = seed();
        let mut far = Vec::new();
        let mut lines = Vec::new();
        for rank in 0..self.ranks {
            match nodes {
                None => lines.push((rank, None)),
                Some(nodes) if !nodes.has(rank, self.ranks) => {}
                Some(nodes) if nodes.is_first() => lines.push((rank, None)),
                Some(nodes) => {
                    let (line, told) = nodes.reach(&self.name, rank, self.limit);
                    seed = told;
                    lines.push((rank, Some(line)));
                }
            }
        }
        let is_hub = nodes.is_none_or(Nodes::is_first);
        if let Some(nodes) = nodes.filter(|_| is_hub) {
            far = nodes.accept(&self.name, self.ranks, seed, self.limit);
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        // Ranks may change their user.
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(directory.path(), everybody).expect("permissions");
        let mut links = far;
        let mut started = Vec::new();
        for (rank, line) in lines {
            let there = line.unwrap_or_else(|| {
                let (here, there) = UnixStream::pair().expect("a pair of sockets");
                links.push((rank, here));
                there
            });
            let output = tempfile::tempfile().expect("a temporary file");
            let another = || Stdio::from(output.try_clone().expect("a descriptor"));
            let program = std::env::current_exe().expect("the test binary has a path");
            let child = Command::new(program)
                .args([&*self.name, "--exact", "--nocapture", "--include-ignored"])
                .args(["--test-threads=1"])
                .env(RANK, rank.to_string())
                .env(RANKS, self.ranks.to_string())
                .env(NAME, &self.name)
                .env(SEED, seed.to_string())
                .env(DIRECTORY, directory.path())
                .env("RUST_BACKTRACE", "1")
                .stdin(Stdio::from(std::os::fd::OwnedFd::from(there)))
                .stdout(another())
                .stderr(another())
                .spawn()
                .expect("the test binary starts again");
            started.push(Started {
                rank,
                child,
                output,
                status: None,
                expected: if self.killed.contains(&rank) {
                    Expected::Killed
                } else {
                    Expected::Success
                },
            });
        }
        links.sort_by_key(|(rank, _)| *rank);
        let hub = hub::serve(links.into_iter().map(|(_, link)| link).collect());
        let verdict = watch(&mut started, self.limit);
        let history = hub.join().expect("the hub does not panic");
        let mut verdict = verdict.err();
        if is_hub && !history.began.iter().all(|began| *began) {
            verdict.get_or_insert(format!(
                "not every rank ran the test (is its name {:?}?): {:?}",
                self.name, history.began
            ));
        }
        let ranks: Vec<u32> = started.iter().map(|rank| rank.rank).collect();
        let ended: Vec<Ended> = started.into_iter().map(Started::ended).collect();
        if let Some(why) = verdict {
            let mut text = format!("{}: {why}; seed {seed}\n", self.name);
            for (rank, ended) in ranks.iter().zip(&ended) {
                let from = ended.output.len().saturating_sub(SHOWN);
                let from = (from..).find(|at| ended.output.is_char_boundary(*at));
                let shown = &ended.output[from.unwrap_or(0)..];
                text += &format!("--- rank {rank}: {}\n{shown}\n", ended.status);
            }
            panic!("{text}");
        }
        for ended in &ended {
            let told = |line: &&str| line.contains("SKIPPED: ") || line.starts_with("REPORT: ");
            for line in ended.output.lines().filter(told) {
                eprintln!("{line}");
            }
        }
        Report {
            ended,
            exchanges: history.exchanges,
            seed,
        }
    }
}

/// The seed of the environment, else another one each time. It is shown when a test fails.
pub(crate) fn seed() -> u64 {
    match std::env::var(SEED) {
        Ok(seed) => seed.parse().expect("LIMIC_TEST_SEED is a number"),
        Err(_) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(1, |now| now.as_nanos() as u64) % 1_000_000_007
        }
    }
}

/// When tests are ended: after a minute, or `LIMIC_TEST_LIMIT` seconds.
pub(crate) fn watchdog() -> Duration {
    let limit = std::env::var("LIMIC_TEST_LIMIT").ok();
    let seconds = limit.map_or(60, |limit| {
        limit.parse().expect("LIMIC_TEST_LIMIT is in seconds")
    });
    Duration::from_secs(seconds)
}

/// Held by a test that wants the machine for itself. The kernel lets go of it with the process.
fn lock() -> File {
    let user = rustix::process::getuid().as_raw();
    let path = std::env::temp_dir().join(format!("limic-tests-{user}.lock"));
    let file = File::create(path).expect("a lock file in the temporary directory");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("flock");
    file
}

impl Rank {
    fn of_this_process() -> Self {
        // The rank ends with the test, however that ends.
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).expect("prctl");
        let number = |name: &str| -> u64 {
            let value = std::env::var(name).expect("the test that started this rank sets it");
            value.parse().expect("a number")
        };
        let line = std::io::stdin().as_fd().try_clone_to_owned();
        let rank = Self {
            rank: number(RANK) as u32,
            ranks: number(RANKS) as u32,
            seed: number(SEED),
            directory: std::env::var_os(DIRECTORY)
                .expect("the test that started this rank sets it")
                .into(),
            link: Link::new(UnixStream::from(line.expect("a descriptor"))),
        };
        println!("rank {} of {}, seed {}", rank.rank, rank.ranks, rank.seed);
        // What limic logs is shown when the test fails.
        let log = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
            .with_ansi(false)
            .try_init();
        log.expect("a rank has no other log");
        rank
    }

    /// Exchanges addresses and connects to every rank; peers in the order of ranks.
    ///
    /// # Panics
    /// If a rank ended before it gave its address.
    pub fn connect<E: limic::Endpoint>(&self, endpoint: &E) -> Vec<limic::Peer> {
        crate::party::connect(&self.link, endpoint)
    }
}
