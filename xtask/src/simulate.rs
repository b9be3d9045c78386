//! The simulator, which takes a build of its own: the engine with its seams open.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{fs, io};

use comfy_table::{Table, presets};
use limic_runner::{Failure, Job, Summary, console, folders};
use serde::Deserialize;

/// Runs in CI: about a minute. They are the same each time, so that a change is to blame for what
/// they find; other seeds are for those who look for faults.
const RUNS: &str = "2000";
/// Of `LIMIC_LOG`: what users are warned of happens in runs all the time.
const QUIET: &str = "off";
/// Seconds in which a mutant has to be found.
const MUTANT_SECONDS: &str = "180";
/// Where the list of mutants lies.
const MUTANTS: &str = "tools/simulator/mutants.toml";
/// Where mutants are built.
const BUILD: &str = "target/mutants/build";
/// Characters of what was found in the table at the end.
const CELL: usize = 100;

/// `cargo xtask simulate`: the simulator itself with these arguments, or its mutants.
pub(crate) fn run(words: &[OsString]) -> Result<(), Failure> {
    if words.iter().any(|word| word == "--mutants") {
        return mutants(words);
    }
    build(folders::root(), "target/simulator")?;
    let status = Command::new(program(&folders::root().join("target/simulator")))
        .args(words)
        .env("LIMIC_LOG", QUIET)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::Exit(status.code().unwrap_or(1))),
        Err(source) => Err(not_started(source)),
    }
}

/// Some runs; the mutants still fit the sources.
pub(crate) fn check(summary: &mut Summary) -> Result<(), Failure> {
    for mutant in list()? {
        mutant.mutated(folders::root())?;
    }
    build(folders::root(), "target/simulator")?;
    Job::new(program(&folders::root().join("target/simulator")), 5)
        .args(["--seeds", RUNS])
        .env("LIMIC_LOG", QUIET)
        .run()?;
    summary.pass();
    Ok(())
}

fn program(target: &Path) -> PathBuf {
    target.join("simulator/limic-simulator")
}

fn not_started(source: io::Error) -> Failure {
    Failure::Start {
        command: "limic-simulator".to_owned(),
        source,
    }
}

/// Builds the simulator of a tree.
fn build(root: &Path, target: &str) -> Result<(), Failure> {
    Job::cargo(
        &[
            "build",
            "--quiet",
            "--profile",
            "simulator",
            "-p",
            "limic-simulator",
        ],
        15,
    )
    .env("RUSTFLAGS", "--cfg limic_sim")
    .env("CARGO_TARGET_DIR", folders::root().join(target))
    .within(root)
    .run()
}

/// A fault that the simulator has to find.
#[derive(Debug, Deserialize)]
struct Mutant {
    name: String,
    what: String,
    file: String,
    from: String,
    to: String,
    /// How the simulator names it, in one of these ways: what it finds else is not this fault.
    /// Three dots stand for any words.
    says: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct List {
    mutant: Vec<Mutant>,
}

fn list() -> Result<Vec<Mutant>, Failure> {
    let text = read(&folders::root().join(MUTANTS))?;
    let list: List = toml::from_str(&text)
        .map_err(|error| Failure::Checks(format!("{MUTANTS} makes no sense: {error}")))?;
    Ok(list.mutant)
}

fn failed(verb: &'static str, path: &Path, source: io::Error) -> Failure {
    Failure::File {
        verb,
        path: path.to_owned(),
        source,
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| failed("read", file, error))
}

fn write(file: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    folders::make(file.parent().unwrap_or(file))?;
    fs::write(file, bytes).map_err(|error| failed("write", file, error))
}

impl Mutant {
    /// The text of its file before and after.
    fn mutated(&self, root: &Path) -> Result<(String, String), Failure> {
        let text = read(&root.join(&self.file))?;
        if text.matches(&self.from).count() != 1 {
            return Err(Failure::Checks(format!(
                "the mutant {} does not fit any more: {} has not once the text that it replaces \
                 ({MUTANTS})",
                self.name, self.file
            )));
        }
        let mutated = text.replace(&self.from, &self.to);
        Ok((text, mutated))
    }

    /// Builds the simulator with it.
    fn build(&self, tree: &Path) -> Result<(), Failure> {
        let (text, mutated) = self.mutated(tree)?;
        let file = tree.join(&self.file);
        write(&file, &mutated)?;
        let built = build(tree, BUILD);
        write(&file, &text)?;
        built
    }

    /// Whether what the simulator has found is this fault.
    fn is_named_by(&self, said: &str) -> bool {
        self.says.iter().any(|words| {
            let mut parts = words.split("...");
            let behind = parts.try_fold(said, |left, part| Some(left.split_once(part)?.1));
            behind.is_some()
        })
    }
}

/// Runs the mutant that was built until something is found. Gives that in one line, or how many
/// runs found nothing.
fn find() -> Result<String, Failure> {
    let ran = Command::new(program(&folders::root().join(BUILD)))
        .args(["--seconds", MUTANT_SECONDS])
        .stderr(Stdio::null())
        .output()
        .map_err(not_started)?;
    let out = String::from_utf8_lossy(&ran.stdout);
    let lines = out.lines();
    let found: Vec<&str> = lines
        .skip_while(|line| !line.starts_with("seed "))
        .take_while(|line| !line.starts_with("again, "))
        .map(str::trim)
        .collect();
    if found.is_empty() {
        let runs = out.lines().find(|line| line.contains(" runs in "));
        return Ok(format!("nothing, {}", runs.unwrap_or("and no run")));
    }
    Ok(found.join(" "))
}

/// Builds each mutant and runs it until the simulator finds it.
fn mutants(words: &[OsString]) -> Result<(), Failure> {
    let tree = folders::root().join("target/mutants/tree");
    copy_tree(&tree)?;
    let wanted: Vec<&OsString> = words.iter().filter(|word| *word != "--mutants").collect();
    let all = list()?;
    if let Some(unknown) = wanted
        .iter()
        .find(|name| !all.iter().any(|one| ***name == *one.name))
    {
        return Err(Failure::Missing(format!(
            "there is no mutant {}: {MUTANTS} has them",
            unknown.display()
        )));
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["mutant", "seconds", "what the simulator said"]);
    let mut missed = Vec::new();
    for mutant in all {
        if !wanted.is_empty() && !wanted.iter().any(|name| **name == *mutant.name) {
            continue;
        }
        console::step(&format_args!("{}: {}", mutant.name, mutant.what));
        mutant.build(&tree)?;
        let begin = Instant::now();
        let said = find()?;
        let seconds = format!("{:.1}", begin.elapsed().as_secs_f64());
        println!("    {seconds} s: {said}");
        if !mutant.is_named_by(&said) {
            println!("    THAT IS NOT IT");
            missed.push(mutant.name.clone());
        }
        let start: String = said.chars().take(CELL).collect();
        table.add_row([mutant.name, seconds, start]);
    }
    println!("{table}");
    if missed.is_empty() {
        Ok(())
    } else {
        Err(Failure::Checks(format!(
            "the simulator does not find: {}",
            missed.join(", ")
        )))
    }
}

/// Copies the sources; files that are as they were stay, so that little is built again.
fn copy_tree(tree: &Path) -> Result<(), Failure> {
    let files = Job::new("git", 1).args(["ls-files"]).capture()?;
    for file in files.lines() {
        let (from, to) = (folders::root().join(file), tree.join(file));
        let Ok(bytes) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        write(&to, bytes)?;
    }
    Ok(())
}
