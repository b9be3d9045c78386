//! Pairs and messages, as a seed draws them.

use limic::networks::limits;
use limic::settings::{FabricUse, LineLatency, OfiReads, Path, PathSet, Settings, SettingsBuilder};
use limic_policy::select::LONGEST_EAGER;
use limic_policy::{Capabilities, History, Locality, Question, Receiver, ReceiverPace, SendMemory};
use limic_tests::Random;

/// What all pairs have in common. What is measured must not overrule what is explained, so it is
/// off.
pub(super) fn settings() -> SettingsBuilder {
    Settings::builder()
        .without_environment()
        .autotune(false)
        .skew(false)
}

/// A pair that shares memory, within a process or not; the same in both ranks.
pub(super) fn draw_settings(random: &mut Random, builder: SettingsBuilder) -> (Settings, Locality) {
    let (locality, latency) = if random.below(2) == 0 {
        (Locality::SharedCache, 30)
    } else {
        (Locality::SamePackage, 180)
    };
    let mut builder = builder.line_latency(LineLatency::Nanoseconds(latency));
    if random.below(2) == 0 {
        let paths = [
            Path::Inline,
            Path::Eager,
            Path::Pipeline,
            Path::Cma,
            Path::SplitCopy,
            Path::PeerReadable,
            Path::SameProcess,
            Path::Loan,
        ];
        let drawn: PathSet = paths.into_iter().filter(|_| random.below(3) > 0).collect();
        // No path at all is no setting.
        if !drawn.is_empty() {
            builder = builder.allowed(drawn);
        }
    }
    if random.below(2) == 0 {
        builder = builder.eager_max(random.below(100_000));
    }
    if random.below(3) == 0 {
        let long = [Path::Pipeline, Path::Cma, Path::SplitCopy];
        builder = builder.long_path(long[random.below(3) as usize]);
    }
    (builder.build().expect("settings"), locality)
}

/// The receiver of such a pair.
pub(super) fn near(settings: &Settings, locality: Locality, pace: ReceiverPace) -> Receiver {
    Receiver::Near {
        locality,
        pace,
        capabilities: capabilities(settings, locality),
    }
}

/// A pair within the node whose receiver keeps up, and a message.
pub(super) fn draw_near(random: &mut Random) -> (Settings, Question) {
    let (settings, locality) = draw_settings(random, settings());
    let receiver = near(&settings, locality, ReceiverPace::Steady);
    (settings, draw_message(random, receiver))
}

/// What this pair can do, as far as the kernel lets it.
pub(super) fn capabilities(settings: &Settings, locality: Locality) -> Capabilities {
    let mut paths: PathSet = settings.allowed().without(Path::Kmod);
    if locality != Locality::SameProcess {
        paths = paths.without(Path::SameProcess);
    }
    if limic_copy::explain().available.is_err() {
        paths = paths.without(Path::Cma).without(Path::SplitCopy);
    }
    Capabilities {
        paths,
        max_eager: LONGEST_EAGER,
    }
}

/// A pair over a network, and a message.
pub(super) fn over(random: &mut Random, network: &str, only: FabricUse) -> (Settings, Question) {
    let reads = [OfiReads::On, OfiReads::Off][random.below(2) as usize];
    let settings = settings().fabric(only).ofi_reads(reads).build();
    let settings = settings.expect("settings");
    let limits = limits(&settings, network).expect("a network of this build");
    (settings, draw_message(random, Receiver::Network(limits)))
}

/// A message to this receiver.
pub(super) fn draw_message(random: &mut Random, receiver: Receiver) -> Question {
    let bits = 3 + random.below(18);
    let bytes = (1_u64 << bits) + random.below(1 << bits);
    let memory = match random.below(4) {
        0 => SendMemory::PeerReadable,
        1 => SendMemory::Loan,
        _ => SendMemory::Private,
    };
    let in_slices = memory != SendMemory::Loan && random.below(3) == 0;
    Question {
        memory,
        slices: if in_slices {
            2 + random.below(bytes.min(12) - 1) as usize
        } else {
            1
        },
        history: if random.below(2) == 0 {
            History::Reply
        } else {
            History::OneWay
        },
        ..Question::new(bytes, receiver)
    }
}
