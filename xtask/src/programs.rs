//! The example programs under `limic run`: each compares itself with a serial run, and its exit
//! code says whether they agree.

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::job::{Job, root, target};
use crate::tally::Tally;

const PROGRAMS: [&str; 3] = ["hello", "halo", "bucket_sort"];
const RANKS: [&str; 3] = ["1", "2", "4"];

/// Runs all of them; they have to be built.
pub(crate) fn run(tally: &mut Tally) -> Result<(), Failure> {
    readme_shows_hello()?;
    tally.pass();
    let built = target().join("debug");
    let limic = built.join("limic");
    for program in PROGRAMS {
        let program = built.join("examples").join(program);
        for ranks in RANKS {
            Job::new(&limic, 2)
                .args(&["run", "-n", ranks, text(&program)?])
                .run()?;
            tally.pass();
        }
    }
    Ok(())
}

fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| {
        Failure::Missing(format!(
            "the path {} is not UTF-8; check the project out elsewhere",
            path.display()
        ))
    })
}

/// The complete program in the README is the example, so that what people copy was compiled and run.
fn readme_shows_hello() -> Result<(), Failure> {
    let read = |path: PathBuf| {
        std::fs::read_to_string(&path)
            .map_err(|why| Failure::Missing(format!("{}: {why}", path.display())))
    };
    let readme = read(root().join("README.md"))?;
    let hello = read(root().join("crates/transport/examples/hello.rs"))?;
    if readme.contains(&format!("```rust\n{hello}```")) {
        Ok(())
    } else {
        Err(Failure::Wrong(
            "README.md does not show crates/transport/examples/hello.rs as it is; copy it there"
                .to_owned(),
        ))
    }
}
