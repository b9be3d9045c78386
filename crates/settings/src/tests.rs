//! Precedence, errors and the list of variables.

mod files;

use core::time::Duration;
use std::path::PathBuf;

use limic_policy::{LineLatency, Locality, Query, ReceiverPace, Row};

use super::*;

/// A file that goes away with the directory.
fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path: PathBuf = dir.path().join(name);
    std::fs::create_dir_all(path.parent().expect("in a directory")).expect("a directory");
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("a plain name").to_owned()
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory for the test")
}

/// A profile for this machine.
fn profile(text: &str) -> String {
    let mut lines = format!("{text}\n[profile]\nversion = {PROFILE_VERSION}\n[machine]\n");
    for (name, value) in MachineKey::this().fields() {
        lines += &format!("{name} = '{value}'\n");
    }
    lines
}

fn with(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    Settings::builder()
        .with_environment(variables.iter().copied())
        .build()
}

fn path(settings: &Settings, bytes: u64) -> Path {
    let query = Query::new(bytes, Locality::SharedCache);
    settings
        .policy()
        .choose(&query)
        .expect("everything can be done")
}

fn eager_max(settings: &Settings) -> u64 {
    let run = settings
        .policy()
        .run(Locality::SharedCache, ReceiverPace::Steady);
    run.iter()
        .filter(|row| row.path == Path::Eager)
        .map(|r| r.up_to_bytes)
        .max()
        .unwrap_or(0)
}

#[test]
fn later_sources_win() {
    let dir = dir();
    let xdg = Some(dir.path().to_owned());
    let place = profile::place(xdg, None).expect("an absolute path");
    let name = place.strip_prefix(dir.path()).expect("in the directory");
    let text = profile("eager_max = 1024\nstaging_buffers = 7\nhuge_pages = false\n");
    let profile = file(&dir, name.to_str().expect("a plain name"), &text);
    let config = file(
        &dir,
        "config.toml",
        "eager_max = \"2K\"\nstaging_buffers = 8\n",
    );
    let xdg = (
        "XDG_CONFIG_HOME",
        dir.path().to_str().expect("a plain name"),
    );

    assert_eq!(eager_max(&Settings::default()), 64 << 10);
    let settings = with(&[xdg]).expect("a good profile");
    assert_eq!(
        (eager_max(&settings), settings.profile()),
        (1024, Some(FilePath::new(&profile)))
    );
    let settings = with(&[xdg, ("LIMIC_CONFIG", &config)]).expect("good files");
    assert_eq!(eager_max(&settings), 2048);
    let variables = [xdg, ("LIMIC_CONFIG", &config), ("LIMIC_EAGER_MAX", "3K")];
    let settings = with(&variables).expect("good files and variables");
    assert_eq!(eager_max(&settings), 3072);
    let settings = Settings::builder()
        .with_environment(variables)
        .eager_max(4000)
        .build();
    let settings = settings.expect("all good");
    assert_eq!(eager_max(&settings), 4000);

    // Each value comes from the last source that names it.
    assert_eq!(settings.segment().staging_buffers, 8);
    assert!(!settings.huge_pages());
    assert_eq!(settings.unexpected_budget_bytes(), 64 << 20);
    let source = |name: &str| {
        let all = settings.variables();
        let found = all
            .into_iter()
            .find(|v| v.name == name)
            .expect("a known variable");
        (found.value, found.source)
    };
    assert_eq!(
        source("LIMIC_EAGER_MAX"),
        ("4000".into(), "application".into())
    );
    assert_eq!(source("LIMIC_STAGING_BUFFERS"), ("8".into(), config));
    assert_eq!(source("LIMIC_HUGE_PAGES"), ("no".into(), "profile".into()));
    assert_eq!(
        source("LIMIC_NUMA_NODE"),
        ("auto".into(), "built-in".into())
    );
    assert_eq!(source("LIMIC_PROFILE").0, profile);
}

#[test]
fn every_variable_does_something() {
    let settings = with(&[
        ("LIMIC_INLINE_MAX", "16"),
        ("LIMIC_EAGER_MAX", "16K"),
        ("LIMIC_PIPELINE_FRAGMENT", "64K"),
        ("LIMIC_LONG", "cma"),
        ("LIMIC_PATHS", "inline,eager,cma"),
        ("LIMIC_PRIVATE_RINGS", "2"),
        ("LIMIC_RING_BYTES", "128K"),
        ("LIMIC_SHARED_SLOTS", "64"),
        ("LIMIC_STAGING_BUFFERS", "9"),
        ("LIMIC_STAGING_BUFFER_BYTES", "8K"),
        ("LIMIC_SPIN_US", "50"),
        ("LIMIC_HUGE_PAGES", "no"),
        ("LIMIC_NUMA_NODE", "1"),
        ("LIMIC_UNEXPECTED_BYTES", "1G"),
        ("LIMIC_LOAN_BYTES", "2M"),
        ("LIMIC_PIPELINE_WINDOW", "5"),
        ("LIMIC_LINGER_MS", "7"),
        ("LIMIC_PATIENCE_MS", "8"),
        ("LIMIC_SKEW", "off"),
        ("LIMIC_AUTOTUNE", "no"),
        ("LIMIC_LINE_LATENCY", "180"),
        ("LIMIC_COPY", "vector"),
        ("LIMIC_STATS", "counts.json"),
        ("LIMIC_FABRIC", "verbs-only"),
        ("LIMIC_OFI_PROVIDER", "efa"),
        ("LIMIC_OFI_READS", "off"),
        ("LIMIC_TCP_INTERFACE", "eth1"),
        ("LIMIC_TCP_TIMEOUT_MS", "5000"),
        ("LIMIC_VERBS_STREAMS", "2"),
        ("LIMIC_VERBS_DEVICES", "mlx5_0:1, rxe0"),
        ("LIMIC_VERBS_RINGS", "3"),
        ("LIMIC_VERBS_CACHE", "watch"),
        ("LIMIC_VERBS_CONNECT", "static"),
        ("LIMIC_VERBS_RETRY_MS", "500"),
        ("LIMIC_VERBS_GREETING_MS", "60000"),
        ("LIMIC_VERBS_GID_INDEX", "3"),
        ("LIMIC_VERBS_PARTITION", "0x8001"),
        ("LIMIC_VERBS_SERVICE_LEVEL", "2"),
        ("LIMIC_VERBS_TRAFFIC_CLASS", "106"),
        ("LIMIC_VERBS_MTU", "1024"),
        ("LIMIC_VERBS_ENTRIES", "5"),
        ("LIMIC_VERBS_COALESCE", "off"),
        ("LIMIC_KERNEL_GROUP", "fd:3"),
        ("UNRELATED", "x"),
    ])
    .expect("good variables");
    assert_eq!(path(&settings, 16), Path::Inline);
    assert_eq!(path(&settings, 17), Path::Eager);
    assert_eq!(path(&settings, 16 << 10), Path::Eager);
    assert_eq!(path(&settings, 1 << 20), Path::Cma);
    assert_eq!(settings.allowed().to_string(), "self,inline,eager,cma");
    let segment = settings.segment();
    assert_eq!((segment.private_rings, segment.ring_bytes), (2, 128 << 10));
    assert_eq!(
        (
            segment.shared_slots,
            segment.staging_buffers,
            segment.staging_buffer_bytes
        ),
        (64, 9, 8 << 10)
    );
    assert_eq!(settings.spin(), Spin::For(Duration::from_micros(50)));
    assert_eq!(
        (settings.huge_pages(), settings.numa_node()),
        (false, Some(1))
    );
    assert_eq!(settings.unexpected_budget_bytes(), 1 << 30);
    assert_eq!(
        (settings.loan_bytes(), settings.pipeline_window()),
        (2 << 20, 5)
    );
    assert_eq!(settings.linger(), Duration::from_millis(7));
    assert_eq!(settings.patience(), Duration::from_millis(8));
    assert_eq!((settings.skew(), settings.autotune()), (false, false));
    assert_eq!(settings.line_latency(), LineLatency::Nanoseconds(180));
    assert_eq!(settings.copy(), CopyInstructions::Vector);
    assert_eq!(settings.fabric(), FabricUse::VerbsOnly);
    assert_eq!(settings.ofi_provider(), Some("efa"));
    assert_eq!(settings.ofi_reads(), OfiReads::Off);
    let tcp = settings.tcp();
    assert_eq!(tcp.interface.as_deref(), Some("eth1"));
    assert_eq!(tcp.timeout, Duration::from_secs(5));
    let verbs = settings.verbs();
    assert_eq!(
        (verbs.streams, verbs.entries, verbs.coalesce),
        (2, 5, false)
    );
    assert_eq!(settings.kernel_group(), Some("fd:3"));
    assert_eq!(Settings::default().kernel_group(), None);
    assert_eq!(verbs.devices, ["mlx5_0:1", "rxe0"]);
    assert_eq!(
        (verbs.rings, verbs.cache, verbs.connect),
        (3, VerbsCache::Watch, VerbsConnect::Static)
    );
    assert_eq!(verbs.retry, Duration::from_millis(500));
    assert_eq!(verbs.greeting, Duration::from_secs(60));
    assert_eq!(
        (verbs.gid_index, verbs.partition, verbs.mtu),
        (Some(3), Some(0x8001), Some(1024))
    );
    assert_eq!((verbs.service_level, verbs.traffic_class), (2, 106));
    assert_eq!(settings.stats(), Some("counts.json"));
    assert_eq!(Settings::default().stats(), None);
    assert!(settings.warnings().is_empty(), "{:?}", settings.warnings());
    for variable in settings.variables() {
        if !variable.key.is_empty() {
            assert_eq!(variable.source, variable.name, "{variable:?}");
        }
    }
}

#[test]
fn the_pool_follows_the_pipeline_unless_told_otherwise() {
    let fragment =
        |variables: &[(&str, &str)]| with(variables).map(|s| s.segment().staging_buffer_bytes);
    assert_eq!(fragment(&[]), Ok(32 << 10));
    assert_eq!(
        fragment(&[("LIMIC_PIPELINE_FRAGMENT", "96K")]),
        Ok(128 << 10)
    );
    let both = [
        ("LIMIC_PIPELINE_FRAGMENT", "96K"),
        ("LIMIC_STAGING_BUFFER_BYTES", "16K"),
    ];
    assert_eq!(fragment(&both), Ok(16 << 10));
}

#[test]
fn bad_variables_are_named_with_what_is_accepted() {
    let text = |name, value| with(&[(name, value)]).expect_err("a bad value").to_string();
    assert_eq!(
        text("LIMIC_EAGER_MAX", "16Q"),
        "LIMIC_EAGER_MAX=16Q: accepted is a number of bytes (suffix K, M or G), or unlimited"
    );
    assert_eq!(
        text("LIMIC_LONG", "eager"),
        "LIMIC_LONG=eager: accepted is pipeline, cma, split-copy or kmod"
    );
    assert!(text("LIMIC_PATHS", "inline,,eager").contains("peer-readable; or all"));
    assert_eq!(
        text("LIMIC_CONFIG", "/nonexistent/x.toml"),
        "/nonexistent/x.toml (from LIMIC_CONFIG) cannot be read: No such file or directory (os error 2)"
    );
    assert!(
        with(&[("LIMIC_EAGER_MAX", ""), ("LIMIC_CONFIG", "")]).is_ok(),
        "empty is unset"
    );
    let error = Settings::builder()
        .without_environment()
        .ring_bytes(5000)
        .build();
    assert_eq!(
        error.expect_err("not a power of two").to_string(),
        "settings: ring_bytes(5000): accepted is a power of two of bytes from 4K to 16M"
    );
}

#[test]
fn paths_that_no_text_names_count_for_nothing() {
    let paths = PathSet::EMPTY.with(Path::Eager).with(Path::SendAhead);
    let settings = Settings::builder().without_environment().allowed(paths);
    let settings = settings.build().expect("a path that can be named");
    assert_eq!(settings.allowed().to_string(), "self,eager");
}

#[test]
fn unknown_variables_warn_with_the_nearest_name() {
    let settings = with(&[
        ("LIMIC_EAGER_MAXX", "1K"),
        ("LIMIC_SPIN", "1"),
        ("LIMIC_WEATHER", "x"),
        // These are somebody's.
        ("LIMIC_RANK", "0"),
        ("LIMIC_LOG", "debug"),
        ("LIMIC_ROOT", "/opt/limic"),
        ("LIMIC_TEST_RANK", "1"),
        ("LIMICS", "x"),
    ]);
    let settings = settings.expect("only a warning");
    assert_eq!(
        settings.warnings(),
        [
            "unknown variable LIMIC_EAGER_MAXX ignored; did you mean LIMIC_EAGER_MAX?",
            "unknown variable LIMIC_SPIN ignored; did you mean LIMIC_SPIN_US?",
            "unknown variable LIMIC_WEATHER ignored; limic info --all lists the variables",
        ]
    );
    let settings = with(&[("LIMIC_PATHS", "inline,eager")]).expect("only a warning");
    assert!(settings.warnings()[0].contains("(self,inline,eager) carry no long messages"));
}

#[test]
fn a_part_of_a_millisecond_is_more_than_none() {
    let builder = Settings::builder().without_environment();
    let settings = builder.patience(Duration::from_micros(1)).build();
    let settings = settings.expect("a good value");
    assert_eq!(settings.patience(), Duration::from_millis(1));
}

#[test]
fn given_variables_win_over_those_of_the_process() {
    let given = [("LIMIC_STAGING_BUFFERS", "9")];
    let settings = Settings::builder().with_variables(given).build();
    let settings = settings.expect("a good variable");
    assert_eq!(settings.segment().staging_buffers, 9);
}

/// A known name in a warning about another one does not make it the warning's.
#[test]
fn warnings_about_given_variables_are_told_apart() {
    let given = |variables: &[(&'static str, &'static str)]| {
        let builder = Settings::builder().with_variables(variables.iter().copied());
        let settings = builder.build().expect("no more than a warning");
        settings.warnings_about_given().to_vec()
    };
    assert_eq!(
        given(&[("LIMIC_EAGR_MAX", "4K"), ("LIMIC_EAGER_MAX", "1K")]),
        ["unknown variable LIMIC_EAGR_MAX ignored; did you mean LIMIC_EAGER_MAX?"]
    );
    let [paths] = &given(&[("LIMIC_PATHS", "inline,eager")])[..] else {
        panic!("one warning");
    };
    assert!(paths.contains("carry no long messages"), "{paths}");
    let [profile] = &given(&[("LIMIC_PROFILE", "/nonexistent/x.toml")])[..] else {
        panic!("one warning");
    };
    assert!(profile.contains("cannot be read"), "{profile}");
    // Nobody looks for it here.
    assert_eq!(
        given(&[("LIMIC_BOOTSTRAP", "single")]),
        ["LIMIC_BOOTSTRAP is no setting: it counts in the environment alone"]
    );
}

#[test]
fn the_list_of_variables_is_complete() {
    let variables = Settings::default().variables();
    assert_eq!(variables.len(), Key::ALL.len() + 2);
    let eager = variables
        .iter()
        .find(|v| v.name == "LIMIC_EAGER_MAX")
        .expect("a known variable");
    assert_eq!(
        eager.value,
        "64K shared-cache, 48K same-package, 2K other-package"
    );
    assert!(
        variables
            .iter()
            .all(|v| !v.meaning.is_empty() && !v.value.is_empty())
    );
}
