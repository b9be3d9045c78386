//! What `cargo xtask install` lays out beside the libraries, and that `uninstall` takes it away.

mod stage;

use std::fs;
use std::path::Path;
use std::process::Command;

use stage::{root, stage, succeed, xtask};

#[test]
fn each_subcommand_has_a_man_page() {
    let stage = stage();
    let help = succeed(Command::new(&stage.limic).arg("--help"));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names: Vec<&str> = commands
        .map_while(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.contains(&"run"), "{help}");
    let pages = stage.prefix.join("share/man/man1");
    assert!(!pages.join("limic-help.1").exists());
    let main = fs::read_to_string(pages.join("limic.1")).expect("the command's page");
    for name in names {
        let page = fs::read_to_string(pages.join(format!("limic-{name}.1")));
        let page = page.unwrap_or_else(|why| panic!("the page of {name}: {why}"));
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
        assert!(
            main.contains(&format!("limic\\-{name}(1)")),
            "{name}: {main}"
        );
    }
}

/// A page for each function of the header, with which groff finds no fault.
#[test]
fn each_function_of_the_header_has_a_man_page() {
    let stage = stage();
    let header = fs::read_to_string(stage.prefix.join("include/limic.h")).expect("limic.h");
    let pages = stage.prefix.join("share/man/man3");
    let map = include_str!("../limic.map");
    let names = map.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let names = names.filter(|name| name.starts_with("limic_"));
    let paths: Vec<_> = names
        .chain(["limic"])
        .map(|name| pages.join(format!("{name}.3")))
        .collect();
    assert!(
        paths.len() > 60 && header.contains("limic_send("),
        "{paths:?}"
    );
    for path in &paths {
        let page = fs::read_to_string(path).unwrap_or_else(|why| panic!("{path:?}: {why}"));
        let parts = [".SH NAME", ".SH SYNOPSIS", "#include <limic.h>"];
        assert!(parts.iter().all(|part| page.contains(part)), "{page}");
    }
    if Command::new("groff").arg("--version").output().is_err() {
        println!("SKIPPED: groff is not in PATH");
        return;
    }
    let mut look = Command::new("groff");
    look.args(["-man", "-ww", "-z", "-Tutf8"]).args(&paths);
    let output = stage::finish(&mut look);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn pkg_config_serves_a_prefix_with_a_space() {
    let stage = stage();
    let mut ask = Command::new("pkg-config");
    ask.env("PKG_CONFIG_PATH", stage.prefix.join("lib/pkgconfig"));
    ask.args(["--define-variable=prefix=/a b", "--cflags", "--libs"]);
    let flags = succeed(ask.args(["limic", "limic2"]));
    for flag in [
        r"-I/a\ b/include ",
        r"-I/a\ b/include/limic2 ",
        r"-L/a\ b/lib ",
    ] {
        assert!(flags.contains(flag), "{flag}: {flags}");
    }
}

/// A project of CMake's finds both libraries in an installation that was moved.
#[test]
fn cmake_finds_the_libraries() {
    if Command::new("cmake").arg("--version").output().is_err() {
        println!("SKIPPED: cmake is not in PATH");
        return;
    }
    let stage = stage();
    let folder = tempfile::tempdir().expect("a folder");
    let moved = folder.path().join("moved");
    let mut copy = Command::new("cp");
    succeed(copy.arg("-a").arg(&stage.prefix).arg(&moved));
    let project = root().join("crates/capi");
    let built = folder.path().join("built");
    let mut configure = Command::new("cmake");
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", moved.display()));
    let hello = project.join("examples/hello.c");
    configure.arg(format!("-DHELLO={}", hello.display()));
    configure.arg("-S").arg(project.join("tests/cmake"));
    succeed(configure.arg("-B").arg(&built));
    succeed(Command::new("cmake").arg("--build").arg(&built));
    for program in ["hello", "hello-static"] {
        let printed = succeed(&mut Command::new(built.join(program)));
        assert_eq!(printed, "rank 0 of 1 got 'hello from rank 0' from rank 0\n");
    }
}

#[test]
fn bash_completes_the_command() {
    let script = "share/bash-completion/completions/limic";
    let ask = "source \"$0\"; COMP_WORDS=(limic inf); COMP_CWORD=1; \
               _limic limic inf limic; echo \"${COMPREPLY[@]}\"";
    let script = stage().prefix.join(script);
    let printed = succeed(Command::new("bash").args(["-c", ask]).arg(script));
    assert_eq!(printed, "info\n");
}

#[test]
fn the_other_shells_find_their_completions() {
    for place in [
        "zsh/site-functions/_limic",
        "fish/vendor_completions.d/limic.fish",
    ] {
        let script = stage().prefix.join("share").join(place);
        let script = fs::read_to_string(script).expect("a script");
        assert!(
            script.contains("--ranks") || script.contains("-l ranks"),
            "{script}"
        );
    }
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let found = succeed(Command::new("find").arg(folder).args(["!", "-type", "d"]));
    let mut files: Vec<String> = found.lines().map(str::to_owned).collect();
    files.sort_unstable();
    files
}

#[test]
fn a_package_is_laid_out_elsewhere_and_uninstall_leaves_only_what_others_put_there() {
    // Everything is built by now, and nobody else installs.
    let _built = stage();
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("usr");
    let others = root.join("lib/libother.so");
    fs::create_dir_all(root.join("lib")).expect("a folder");
    fs::write(&others, "").expect("a file");

    let place = ["--prefix", "/usr", "--destdir"];
    succeed(
        xtask("install")
            .args(["--debug", "--libdir", "lib64"])
            .args(place)
            .arg(folder.path()),
    );
    for file in ["bin/limic", "include/limic.h", "lib64/liblimic.so.1"] {
        assert!(root.join(file).exists(), "{file}: {:?}", files(&root));
    }
    let rule = fs::read_to_string(root.join("lib/udev/rules.d/70-limic.rules"));
    assert!(rule.expect("the rule").contains("GROUP=\"limic\""));
    let found = fs::read_to_string(root.join("lib64/pkgconfig/limic.pc")).expect("limic.pc");
    assert!(found.contains("prefix=/usr\n"), "{found}");
    assert!(found.contains("libdir=${prefix}/lib64\n"), "{found}");

    succeed(xtask("uninstall").args(place).arg(folder.path()));
    assert_eq!(files(folder.path()), [others.display().to_string()]);
    let left: Vec<_> = fs::read_dir(&root).expect("usr").collect();
    assert_eq!(left.len(), 1, "folders that it made are gone: {left:?}");
}
