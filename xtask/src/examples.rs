//! The example programs under `limic run`. Each checks what it does, and its exit status says
//! whether that is right.

use limic_runner::folders::{root, target};
use limic_runner::{Failure, Job, Summary};

const PROGRAMS: [&str; 12] = [
    "hello",
    "bootstrap",
    "own_bootstrap",
    "wildcards",
    "loan",
    "one_sided",
    "threads",
    "poll",
    "tokio",
    "errors",
    "halo",
    "bucket_sort",
];
const RANKS: [&str; 3] = ["1", "2", "4"];

/// Runs all of them. They have to be built.
pub(crate) fn run(summary: &mut Summary) -> Result<(), Failure> {
    readme_shows_hello()?;
    summary.pass();
    let built = target().join("debug");
    for program in PROGRAMS {
        for ranks in RANKS {
            Job::new(built.join("limic"), 2)
                .args(["run", "-n", ranks])
                .arg(built.join("examples").join(program))
                .run()?;
            summary.pass();
        }
    }
    Ok(())
}

/// The complete program in the README is the example, so that users copy a program that was
/// compiled and run.
fn readme_shows_hello() -> Result<(), Failure> {
    let read = |name: &str| {
        let path = root().join(name);
        std::fs::read_to_string(&path).map_err(|why| Failure::file("read", &path, why))
    };
    let hello = read("crates/transport/examples/hello.rs")?;
    if read("README.md")?.contains(&format!("```rust\n{hello}```")) {
        return Ok(());
    }
    let why = "README.md does not show crates/transport/examples/hello.rs as it is; copy it there";
    Err(Failure::Wrong(why.to_owned()))
}
