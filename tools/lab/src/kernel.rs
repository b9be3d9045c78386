//! The guest's kernel: Debian's source of one series, configured and built in the cache.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use limic_runner::folders::{self, cache, root};
use limic_runner::{Failure, Job, console};

use super::compiler::Compiler;
use super::debian::Suite;
use super::{Flavour, needs};

/// The series whose Rust interface the module is written for.
const SERIES: &str = "7.2";
/// The file that marks a complete build, and holds the version.
const READY: &str = "limic-ready";
/// The file that marks a complete configuration.
const CONFIGURED: &str = "limic-configured";
const LOG: &str = "limic-build.log";

/// A kernel that can be booted, and against which modules can be built.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    pub(crate) flavour: Flavour,
    pub(crate) version: String,
    /// The build folder.
    pub(crate) folder: PathBuf,
}

impl Kernel {
    /// The file that QEMU boots.
    pub(crate) fn image(&self) -> PathBuf {
        self.folder.join("arch/x86/boot/bzImage")
    }

    /// Prints where it lies and how a module is built against it.
    pub(crate) fn describe(&self) {
        println!(
            "Linux {} ({}): {}\na module with Rust: make -C {} M=<its folder> modules",
            self.version,
            self.flavour.name(),
            self.folder.display(),
            self.folder.display(),
        );
    }
}

/// The kernel of this flavour, built if the cache has none for this configuration and this rustc.
pub(crate) fn build(flavour: Flavour, newest: bool) -> Result<Kernel, Failure> {
    let compiler = Compiler::of(flavour)?;
    let configuration = Configuration::of(flavour, &compiler)?;
    if !newest && let Some(kernel) = cached(flavour, &configuration)? {
        return Ok(kernel);
    }
    let _lock = folders::lock(&cache("lab")?)?;
    // Another run may have built it meanwhile.
    if !newest && let Some(kernel) = cached(flavour, &configuration)? {
        return Ok(kernel);
    }
    let variables = needs::kernel(&compiler)?;
    let version = source(newest)?;
    let kernel = Kernel {
        flavour,
        folder: configuration.folder(&version)?,
        version,
    };
    if !kernel.folder.join(READY).exists() {
        configure(&kernel, &configuration, &variables)?;
        compile(&kernel, &variables)?;
        write(&kernel.folder.join(READY), &kernel.version)?;
    }
    Ok(kernel)
}

/// The newest kernel that was built for this configuration.
fn cached(flavour: Flavour, configuration: &Configuration) -> Result<Option<Kernel>, Failure> {
    let found = versions(&configuration.prefix(""), |folder| {
        folder.join(READY).exists()
    })?;
    Ok(found
        .into_iter()
        .next_back()
        .map(|(version, folder)| Kernel {
            flavour,
            version,
            folder,
        }))
}

/// Folders of the cache that are named after kernel versions, in rising order.
fn versions(
    prefix: &str,
    complete: impl Fn(&Path) -> bool,
) -> Result<Vec<(String, PathBuf)>, Failure> {
    let root = cache("lab")?;
    let entries = std::fs::read_dir(&root).map_err(|why| Failure::file("read", &root, why))?;
    let mut found: Vec<(u32, String, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix(prefix)?.to_owned();
            let patch = version
                .strip_prefix(SERIES)?
                .strip_prefix('.')?
                .parse()
                .ok()?;
            let folder = entry.path();
            complete(&folder).then_some((patch, version, folder))
        })
        .collect();
    found.sort();
    let found = found.into_iter();
    Ok(found
        .map(|(_, version, folder)| (version, folder))
        .collect())
}

/// The conditions of a build.
#[derive(Debug)]
struct Configuration {
    flavour: Flavour,
    fragments: Vec<PathBuf>,
    /// Changes with the compilers and the fragments.
    key: String,
}

impl Configuration {
    fn of(flavour: Flavour, compiler: &Compiler) -> Result<Self, Failure> {
        let names = flavour.fragments().iter();
        let fragments: Vec<PathBuf> = names.map(|name| root().join(name)).collect();
        // Modules have to be compiled by the rustc that compiled the kernel's crates.
        let mut texts = vec![
            Job::new("rustc", 1)
                .arg("--version")
                .capture_quietly()
                .unwrap_or_default(),
        ];
        if let Compiler::Clang { version, .. } = compiler {
            texts.push(version.clone());
        }
        for fragment in &fragments {
            let read = std::fs::read_to_string(fragment);
            texts.push(read.map_err(|why| Failure::file("read", fragment, why))?);
        }
        let mut hasher = DefaultHasher::new();
        texts.hash(&mut hasher);
        Ok(Self {
            flavour,
            fragments,
            key: format!("{:016x}", hasher.finish()),
        })
    }

    fn prefix(&self, version: &str) -> String {
        format!("{}-{}-linux-{version}", self.flavour.name(), self.key)
    }

    fn folder(&self, version: &str) -> Result<PathBuf, Failure> {
        cache(&format!("lab/{}", self.prefix(version)))
    }
}

fn source_folder(version: &str) -> Result<PathBuf, Failure> {
    Ok(cache("lab")?.join(format!("source-linux-{version}")))
}

/// Fetches the source unless it is in the cache, and returns its version.
fn source(newest: bool) -> Result<String, Failure> {
    let there = versions("source-linux-", |_| true)?;
    if !newest && let Some((version, _)) = there.into_iter().next_back() {
        return Ok(version);
    }
    let name = format!("linux-source-{SERIES}");
    let suite = Suite::fetch()?;
    let package = suite.newest(&name).ok_or_else(|| {
        Failure::Missing(format!(
            "the archive has no {name} any more; a newer series needs the module ported to it \
             (tools/lab/src/kernel.rs names the series)"
        ))
    })?;
    // `7.2.12-1~bpo13+1`
    let version = package.split('-').next().unwrap_or_default().to_owned();
    let folder = source_folder(&version)?;
    if folder.exists() {
        return Ok(version);
    }
    // A complete tree gets its name at the end. What an interrupted run has left is no tree.
    let part = cache("lab")?.join("unpacking");
    if part.exists() {
        std::fs::remove_dir_all(&part).map_err(|why| Failure::file("remove", &part, why))?;
    }
    suite.unpack(&format!("{name}={package}"), &part)?;
    let tar = part.join(format!("usr/src/{name}.tar.xz"));
    console::step(&format_args!("lab: unpacking Linux {version}"));
    let unpack = Job::new("tar", 10).arg("-xf").arg(&tar);
    unpack.arg("-C").arg(&part).run()?;
    std::fs::rename(part.join(&name), &folder)
        .map_err(|why| Failure::file("make", &folder, why))?;
    std::fs::remove_dir_all(&part).map_err(|why| Failure::file("remove", &part, why))?;
    Ok(version)
}

fn configure(
    kernel: &Kernel,
    configuration: &Configuration,
    variables: &[(&str, String)],
) -> Result<(), Failure> {
    let config = kernel.folder.join(".config");
    let complete = kernel.folder.join(CONFIGURED);
    if complete.exists() {
        return Ok(());
    }
    console::step(&format_args!("lab: configuring Linux {}", kernel.version));
    let source = source_folder(&kernel.version)?;
    let output = format!("O={}", kernel.folder.display());
    let make = |target: &str| {
        make(&source, variables)
            .args(["--silent", &output, target])
            .run()
    };
    make("rustavailable")?;
    make("tinyconfig")?;
    let base =
        std::fs::read_to_string(&config).map_err(|why| Failure::file("read", &config, why))?;
    let mut wanted = Vec::new();
    let mut merged: Vec<String> = base.lines().map(str::to_owned).collect();
    for fragment in &configuration.fragments {
        let read = std::fs::read_to_string(fragment)
            .map_err(|why| Failure::file("read", fragment, why))?;
        for line in read.lines() {
            if let Some(option) = option(line) {
                merged.retain(|had| self::option(had) != Some(option));
                wanted.retain(|had: &String| self::option(had) != Some(option));
                merged.push(line.to_owned());
                wanted.push(line.to_owned());
            }
        }
    }
    write(&config, &(merged.join("\n") + "\n"))?;
    make("olddefconfig")?;
    let result =
        std::fs::read_to_string(&config).map_err(|why| Failure::file("read", &config, why))?;
    let refused: Vec<String> = wanted
        .into_iter()
        .filter(|line| line.starts_with("CONFIG_") && !result.lines().any(|found| found == line))
        .collect();
    if refused.is_empty() {
        write(&complete, "")
    } else {
        Err(Failure::Wrong(format!(
            "Linux {} cannot have {}: something that it depends on is off or missing",
            kernel.version,
            refused.join(", ")
        )))
    }
}

/// The option that a line sets, `CONFIG_A=y`, or switches off, `# CONFIG_A is not set`.
fn option(line: &str) -> Option<&str> {
    let off = line
        .strip_prefix("# ")
        .and_then(|rest| rest.strip_suffix(" is not set"));
    let option = off.or_else(|| line.split_once('=').map(|(option, _)| option))?;
    option.starts_with("CONFIG_").then_some(option)
}

/// Builds, or goes on with an interrupted build: make knows what is done.
fn compile(kernel: &Kernel, variables: &[(&str, String)]) -> Result<(), Failure> {
    console::step(&format_args!(
        "lab: building Linux {} ({}); some {} minutes on two cores, and an interrupted build goes \
         on",
        kernel.version,
        kernel.flavour.name(),
        if kernel.flavour == Flavour::Kasan {
            20
        } else {
            6
        }
    ));
    let start = Instant::now();
    let log = kernel.folder.join(LOG);
    let mut file = File::create(&log).map_err(|why| Failure::file("make", &log, why))?;
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let mut last = Vec::new();
    let mut shown = Instant::now();
    let mut steps = 0_u32;
    let mut line = |line: &str| {
        // The log is for people. Without room for it the build may still go through.
        let _ = writeln!(file, "{line}");
        steps += 1;
        last.push(line.to_owned());
        if last.len() > 30 {
            last.remove(0);
        }
        let interval = if std::io::stderr().is_terminal() {
            1
        } else {
            20
        };
        if shown.elapsed().as_secs() >= interval {
            shown = Instant::now();
            let seconds = start.elapsed().as_secs();
            console::detail(&format_args!(
                "{seconds:>4} s, {steps} steps: {}",
                line.trim()
            ));
        }
    };
    let result = make(&kernel.folder, variables)
        .args(["--jobs", &processors.to_string(), "bzImage", "modules"])
        .run_lines(&mut line);
    if result.is_err() {
        console::detail(&format_args!("the end of {}:", log.display()));
        last.iter().for_each(|line| console::detail(line));
    }
    result
}

fn make(folder: &Path, variables: &[(&str, String)]) -> Job {
    let mut job = Job::new("make", 60).arg("-C").arg(folder);
    for (name, value) in variables {
        job = job.arg(format!("{name}={value}"));
    }
    job
}

/// Builds the external module in `source` against this kernel into the folder `output`.
pub(crate) fn module(kernel: &Kernel, source: &Path, output: &Path) -> Result<(), Failure> {
    let variables = needs::variables(&Compiler::of(kernel.flavour)?)?;
    folders::make(output)?;
    make(&kernel.folder, &variables)
        .args(["--silent", &format!("M={}", source.display())])
        .args([&format!("MO={}", output.display()), "modules"])
        .run()
}

fn write(path: &Path, content: &str) -> Result<(), Failure> {
    std::fs::write(path, content).map_err(|why| Failure::file("write", path, why))
}

#[cfg(test)]
mod tests {
    #[test]
    fn options_are_told_from_remarks() {
        assert_eq!(super::option("CONFIG_A_B=y"), Some("CONFIG_A_B"));
        assert_eq!(super::option("# CONFIG_A_B is not set"), Some("CONFIG_A_B"));
        assert_eq!(super::option("# What = CONFIG_A"), None);
    }

    #[test]
    fn dkms_builds_the_module_for_the_series_that_it_is_tested_with() {
        let path = limic_runner::folders::root().join("kernel/limic_rs/dkms.conf");
        let text = std::fs::read_to_string(path).expect("the module has a dkms.conf");
        let series = super::SERIES.replace('.', r"\.");
        let wanted = format!("BUILD_EXCLUSIVE_KERNEL=\"^{series}\\.\"");
        assert!(text.lines().any(|line| line == wanted), "{wanted}");
    }
}
