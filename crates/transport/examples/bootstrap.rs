//! Prints what start-up found: rank, size, launcher, and one exchange.
//!
//! ```text
//! limic run -n 4 target/debug/examples/bootstrap
//! mpiexec -n 4 target/debug/examples/bootstrap
//! prterun -n 4 target/debug/examples/bootstrap
//! ```

use std::process::ExitCode;

use limic::bootstrap::{BootstrapError, detect};

fn main() -> ExitCode {
    match exchange() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn exchange() -> Result<(), BootstrapError> {
    let mut job = detect()?;
    let (rank, size) = (job.rank(), job.size());
    // Lengths differ by rank, and the longest needs several values in PMI-1.
    let blob = |rank: u32, round: u32| format!("{rank}.{round} ").repeat(1 + 300 * rank as usize);
    for round in 0..2 {
        let all = job.all_gather(blob(rank, round).as_bytes())?;
        let right = (0..)
            .zip(&all)
            .all(|(rank, got)| *got == blob(rank, round).as_bytes());
        let lengths: Vec<usize> = all.iter().map(Vec::len).collect();
        println!(
            "rank {rank} of {size} by {}: {lengths:?} {}",
            job.kind(),
            if right { "right" } else { "WRONG" }
        );
        job.barrier()?;
    }
    job.finalize()
}
