//! Files: the host's profile, and tables of paths.

use super::*;

#[test]
fn bad_files_are_named_with_line_and_what_is_accepted() {
    let dir = dir();
    let text = |content: &str| {
        let path = file(&dir, "bad.toml", content);
        let text = with(&[("LIMIC_CONFIG", &path)])
            .expect_err("a bad file")
            .to_string();
        text.strip_prefix(&path)
            .expect("the file comes first")
            .to_owned()
    };
    assert_eq!(
        text("\n# note\neager_max = \"lots\"\n"),
        ":3: eager_max = \"lots\": accepted is a number of bytes (suffix K, M or G), or unlimited"
    );
    assert_eq!(
        text("staging_buffers = -1"),
        ":1: staging_buffers = -1: accepted is 1 to 4096"
    );
    assert_eq!(
        text("staging_buffers = 1.5"),
        ":1: staging_buffers = 1.5: accepted is 1 to 4096"
    );
    assert_eq!(
        text("\neager_mx = 1"),
        ":2: unknown key 'eager_mx'; did you mean 'eager_max'?"
    );
    assert!(text("eager_max = \n").starts_with(":1: not TOML: "));
    assert!(text("[rows]\n").contains("accepted is one [[rows]] table for each row"));
    let row = "[[rows]]\nlocality = \"shared-cache\"\nup_to = \"8K\"\n";
    assert_eq!(
        text(row),
        ":1: this row has no 'path'; every row needs locality, up_to and path"
    );
    assert_eq!(
        text(&format!("{row}path = \"loan\"")),
        ":4: path = \"loan\": accepted is any path but loan: loans are handed over wherever that is allowed"
    );
    assert!(
        text(&format!("{row}path = \"tcp\"")).starts_with(":4: path = \"tcp\": accepted is self, ")
    );
    assert_eq!(
        text(&format!("{row}path = \"pipeline\"\nfragment = \"64K\"")),
        ":5: fragment = \"64K\": accepted is pipeline_fragment before the first table, for all rows"
    );
    assert!(
        text(&format!("{row}pth = \"eager\"")).ends_with("unknown key 'pth'; did you mean 'path'?")
    );
    let twice = format!("{row}path = \"eager\"\n{row}path = \"cma\"\n");
    assert_eq!(
        text(&twice),
        ": two rows for shared-cache, usual end at 8K; give each its own length"
    );
}

#[test]
fn a_profile_that_cannot_be_used_is_left_aside_with_a_warning() {
    let dir = dir();
    let good = "[[rows]]\nlocality = 'shared-cache'\nup_to = '1K'\npath = 'eager'\n";
    for (text, part) in [
        (
            profile("eager_max = 'lots'"),
            "eager_max = 'lots': accepted is",
        ),
        (profile("eager_max ="), "not TOML"),
        (good.to_owned(), "limic tune did not write it"),
        (
            format!("{good}fragment = '64K'\n[profile]\nversion = 1\n"),
            "version 1, this limic reads version 2; run limic tune again",
        ),
        (
            format!("{good}[profile]\nversion = 2\n"),
            "it has no [machine]",
        ),
        (
            profile("").replace("cores = '", "cores = '7"),
            "measured on another machine: cores is '7",
        ),
        (
            profile(&format!("{good}{good}")),
            "two rows for shared-cache",
        ),
    ] {
        let path = file(&dir, "profile.toml", &text);
        let settings = with(&[("LIMIC_PROFILE", &path)]).expect("only a warning");
        let [warning] = settings.warnings() else {
            panic!("{:?}", settings.warnings());
        };
        assert!(
            warning.contains(part) && warning.starts_with(&path),
            "{warning}"
        );
        assert!(warning.contains("LIMIC_PROFILE=off"), "{warning}");
        assert_eq!(settings.policy(), &Table::built_in());
        assert_eq!(settings.profile(), None);
    }
    let settings = with(&[("LIMIC_PROFILE", "/nonexistent/x.toml")]).expect("only a warning");
    assert!(settings.warnings()[0].contains("(from LIMIC_PROFILE) cannot be read"));

    let path = file(&dir, "profile.toml", &profile(good));
    let settings = with(&[("LIMIC_PROFILE", &path)]).expect("a good profile");
    assert!(settings.warnings().is_empty(), "{:?}", settings.warnings());
    let row = &settings
        .policy()
        .run(Locality::SharedCache, ReceiverPace::Steady)[0];
    assert_eq!((row.up_to_bytes, &row.source), (1024, &RowSource::Profile));
}

#[test]
fn a_profile_can_be_switched_off() {
    let dir = dir();
    let xdg = dir.path().to_str().expect("a plain name");
    let place = profile::place(Some(xdg.into()), None).expect("an absolute path");
    let name = place.strip_prefix(dir.path()).expect("in the directory");
    file(
        &dir,
        name.to_str().expect("a plain name"),
        &profile("staging_buffers = 9"),
    );
    let staging_buffers =
        |variables: &[(&str, &str)]| with(variables).map(|s| s.segment().staging_buffers);
    assert_eq!(staging_buffers(&[("XDG_CONFIG_HOME", xdg)]), Ok(9));
    assert_ne!(
        staging_buffers(&[("XDG_CONFIG_HOME", xdg), ("LIMIC_PROFILE", "off")]),
        Ok(9)
    );
}

#[test]
fn rows_of_a_file_are_laid_over_the_table() {
    let dir = dir();
    let config = file(
        &dir,
        "rows.toml",
        "long = 'split-copy'\n[[rows]]\nlocality = 'shared-cache'\nup_to = 100000\npath = 'cma'\nreason = 'a\\n test'\n",
    );
    let settings = with(&[("LIMIC_CONFIG", &config)]).expect("a good file");
    let row: &Row = &settings
        .policy()
        .run(Locality::SharedCache, ReceiverPace::Steady)[0];
    assert_eq!(
        (row.up_to_bytes, &row.source),
        (100_000, &RowSource::File(config.into()))
    );
    assert_eq!(path(&settings, 1 << 20), Path::SplitCopy);
}

/// The first block of TOML in a page, or in the documentation of a module.
fn example(page: &str) -> Vec<&str> {
    let lines = page.lines().map(|line| line.trim_start_matches("//!"));
    let lines = lines.map(str::trim_start);
    let block = lines.skip_while(|line| *line != "```toml").skip(1);
    block.take_while(|line| *line != "```").collect()
}

#[test]
fn the_examples_in_the_pages_are_accepted() {
    let dir = dir();
    let text = example(include_str!("../lib.rs")).join("\n");
    let config = file(&dir, "config.toml", &text);
    let settings = with(&[("LIMIC_CONFIG", &config)]).expect("the module's example");
    assert_eq!(eager_max(&settings), 16 << 10);

    let machine = MachineKey::this();
    let here = |line: &str| {
        let name = line.split(" = ").next();
        let ours = machine.fields().find(|(field, _)| Some(*field) == name);
        ours.map_or_else(
            || line.to_owned(),
            |(field, value)| format!("{field} = '{value}'"),
        )
    };
    let page = example(include_str!("../../../../docs/profile.md"));
    let text = page.into_iter().map(here).collect::<Vec<_>>().join("\n");
    let profile = file(&dir, "profile.toml", &text);
    let settings = with(&[("LIMIC_PROFILE", &profile)]).expect("no bad variable");
    assert_eq!(settings.warnings(), [] as [String; 0]);
    assert_eq!(path(&settings, 16 << 10), Path::Eager);
}
