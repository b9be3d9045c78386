//! What is wrong with a command line though each of its options is right: nothing that was asked
//! for is ignored silently.

use super::args::{Args, Pattern, SkewArgs};
use super::{PerfError, asleep, skew};

/// Refuses options that do not go together.
pub(super) fn check(args: &Args) -> Result<(), PerfError> {
    match (args.pattern, args.ranks) {
        (Pattern::Floor, Some(_)) => {
            usage("--ranks has no meaning for floor, which is always two processes".into())?;
        }
        (Pattern::Breakdown, Some(_)) => usage(
            "--ranks has no meaning for breakdown, in which one process plays both sides".into(),
        )?,
        (pattern, Some(ranks)) => check_ranks(pattern, ranks)?,
        (_, None) => {}
    }
    check_sizes(args)?;
    check_lanes(args)?;
    let name = args.pattern.name();
    let measured_alone = matches!(
        args.pattern,
        Pattern::Floor | Pattern::Skew | Pattern::Breakdown
    );
    if (measured_alone || args.pattern.is_over_verbs()) && args.counters {
        return usage(format!(
            "--counters is for patterns of messages alone, not for {name}"
        ));
    }
    if (measured_alone || args.pattern.is_over_verbs()) && args.check {
        return usage(format!(
            "--check is for patterns of messages alone, not for {name}"
        ));
    }
    if args.pattern != Pattern::Pairs && args.reuse.is_some() {
        return usage(format!("--reuse is for pairs, not for {name}"));
    }
    if args.pattern != Pattern::Skew && args.skew != SkewArgs::default() {
        return usage("--c1, --c2, --window and --bytes are for skew".into());
    }
    if args.pattern == Pattern::Skew {
        skew::check(args)?;
    }
    if args.sleep {
        asleep::check(args)?;
    }
    Ok(())
}

fn usage(text: String) -> Result<(), PerfError> {
    Err(PerfError::Usage(text))
}

/// Ranks measure in pairs, or all together.
pub(super) fn check_ranks(pattern: Pattern, ranks: u32) -> Result<(), PerfError> {
    if pattern.is_collective() {
        return match ranks {
            0 | 1 => usage(format!("{} takes at least 2 ranks", pattern.name())),
            _ => Ok(()),
        };
    }
    if ranks < 2 || !ranks.is_multiple_of(2) {
        return usage(format!(
            "{ranks} ranks cannot form pairs: an even number of ranks is needed, at least 2"
        ));
    }
    Ok(())
}

fn check_sizes(args: &Args) -> Result<(), PerfError> {
    let name = args.pattern.name();
    if args.pattern == Pattern::Barrier && args.sizes.is_some() {
        return usage("--sizes has no meaning for barrier, whose messages are empty".into());
    }
    let none = args.sizes().as_slice().contains(&0);
    match args.pattern {
        Pattern::Floor | Pattern::Breakdown if none => {
            usage(format!("{name} copies at least 1 byte"))
        }
        _ if moves_by_rdma(args.pattern) && none => usage(format!("{name} moves at least 1 byte")),
        _ => Ok(()),
    }
}

/// Whether it moves bytes by work requests of its own: no endpoint takes part.
fn moves_by_rdma(pattern: Pattern) -> bool {
    pattern.is_over_verbs() && pattern != Pattern::Connect
}

/// A lane is a path, or a way to use verbs.
fn check_lanes(args: &Args) -> Result<(), PerfError> {
    let name = args.pattern.name();
    let over_verbs = !args.verbs.lanes().is_empty();
    let without_lanes = moves_by_rdma(args.pattern)
        || matches!(
            args.pattern,
            Pattern::Floor | Pattern::Skew | Pattern::Breakdown
        );
    if without_lanes && over_verbs {
        return usage(format!(
            "--wqe, --coalesce, --streams and --rings are not for {name}, which has no connections with such settings"
        ));
    }
    if (without_lanes || args.pattern == Pattern::Connect) && args.paths.is_some() {
        return usage(format!(
            "--paths is for patterns of messages alone, not for {name}"
        ));
    }
    if over_verbs && args.paths.is_some() {
        return usage(
            "--paths goes with none of --wqe, --coalesce, --streams and --rings, which have all messages go over verbs"
                .into(),
        );
    }
    Ok(())
}
