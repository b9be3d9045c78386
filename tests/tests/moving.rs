//! Ranks that move to another package, on a machine that limic is told about.

use std::fs;

use limic::settings::{LineLatency, Path, Settings};
use limic::topology::CpuSet;
use limic::{Endpoint, HybridEndpoint};
use limic_policy::{Locality, ReceiverPace, Row, RowSource};
use limic_tests::{Cast, skip};

const DATA: u64 = 1;
/// Eager within a package, not between packages: by the rows below.
const BYTES: usize = 4 << 10;

fn row(locality: Locality, up_to_bytes: u64, path: Path) -> Row {
    Row {
        locality,
        when: ReceiverPace::Steady,
        up_to_bytes,
        path,
        source: RowSource::Application,
        reason: "a test".into(),
    }
}

fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).expect("this rank may be pinned");
}

/// What Linux shows of a machine with two packages of one CPU each.
fn two_packages() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder for the test");
    let file = |path: &str, content: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
        fs::write(path, content).expect("a file");
    };
    file("cpu/online", "0-1");
    for cpu in ["0", "1"] {
        file(&format!("cpu/cpu{cpu}/topology/package_cpus_list"), cpu);
        file(&format!("cpu/cpu{cpu}/cache/index0/level"), "3");
        file(&format!("cpu/cpu{cpu}/cache/index0/type"), "Unified");
        file(&format!("cpu/cpu{cpu}/cache/index0/shared_cpu_list"), cpu);
    }
    root
}

fn messages(endpoint: &HybridEndpoint, path: Path) -> u64 {
    let counters = endpoint.counters();
    let found = counters.paths.iter().find(|(other, _)| *other == path);
    found.map_or(0, |(_, traffic)| traffic.messages)
}

#[test]
fn thresholds_follow_a_rank_to_another_package() {
    let allowed = CpuSet::allowed().expect("the kernel says where this may run");
    if !allowed.contains(0) || !allowed.contains(1) {
        return skip("CPUs 0 and 1 are not both to be used");
    }
    Cast::new("thresholds_follow_a_rank_to_another_package").run(|rank| {
        let machine = two_packages();
        // SAFETY: this rank has one thread that is awake, so nothing reads the environment now.
        unsafe { std::env::set_var("LIMIC_SYSFS", machine.path()) };
        pin(rank.rank as usize);
        let rows = [
            row(Locality::SharedCache, 16 << 10, Path::Eager),
            row(Locality::OtherPackage, 1 << 10, Path::Eager),
        ];
        let settings = Settings::builder()
            .without_environment()
            .rows(rows)
            .long_path(Path::Pipeline)
            // The CPUs of this machine are not those that limic is told about.
            .line_latency(LineLatency::Topology);
        let endpoint = HybridEndpoint::with(settings.build().expect("settings")).expect("open");
        let other = rank.connect(&endpoint)[1 - rank.rank as usize];
        let mut buffer = vec![0; BYTES];
        if rank.rank == 0 {
            // On two packages: too long to go eagerly.
            endpoint.send(other, DATA, &buffer).expect("send");
            assert_eq!(messages(&endpoint, Path::Eager), 0);
            rank.link.meet(&endpoint);
            // The other rank has moved to this one's package, and says so.
            while messages(&endpoint, Path::Eager) == 0 {
                endpoint.send(other, DATA, &buffer).expect("send");
            }
            endpoint.send(other, DATA + 1, &[]).expect("send");
            assert_eq!(endpoint.counters().relocations, 0, "this rank stayed");
        } else {
            endpoint.recv((other, DATA), &mut buffer).expect("receive");
            assert_eq!(messages(&endpoint, Path::Pipeline), 1);
            pin(0);
            // It notices while it polls.
            while endpoint.counters().relocations == 0 {
                endpoint.progress();
            }
            assert!(endpoint.counters().migrations >= 1);
            rank.link.meet(&endpoint);
            loop {
                let status = endpoint
                    .recv(
                        limic::Selector {
                            source: Some(other),
                            tag: limic::Tag(0),
                            mask: 0,
                        },
                        &mut buffer,
                    )
                    .expect("receive");
                if status.tag == limic::Tag(DATA + 1) {
                    break;
                }
            }
        }
        rank.link.meet(&endpoint);
    });
}
