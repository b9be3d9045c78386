//! What lies below a prefix, and the list of it, by which it is taken away again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use limic_runner::{Failure, folders};

/// The list, below the prefix: a file a line, or a folder that was made for them, which ends in a
/// slash.
pub(super) const LIST: &str = "share/limic/installed";

/// An installation that is being laid out.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    /// What the installation has so far, relative to the root.
    places: BTreeSet<String>,
    /// What an earlier installation put there.
    earlier: BTreeSet<String>,
}

impl Tree {
    pub(crate) fn at(root: &Path) -> Result<Self, Failure> {
        folders::make(root)?;
        Ok(Self {
            root: root.to_owned(),
            places: BTreeSet::new(),
            earlier: listed(root)?.unwrap_or_default(),
        })
    }

    /// Copies a file to a place.
    ///
    /// Programs that run with the old file keep it, because the new one takes its place by a
    /// rename.
    pub(crate) fn file(&mut self, from: &Path, place: &str, mode: u32) -> Result<(), Failure> {
        let (to, fresh) = self.take(place)?;
        let put = || {
            fs::copy(from, &fresh)?;
            fs::set_permissions(&fresh, fs::Permissions::from_mode(mode))?;
            fs::rename(&fresh, &to)
        };
        put().map_err(|why| Failure::file("install", from, why))
    }

    /// Writes a text file.
    pub(crate) fn text(&mut self, text: &str, place: &str) -> Result<(), Failure> {
        let (to, fresh) = self.take(place)?;
        let put = || {
            fs::write(&fresh, text)?;
            fs::set_permissions(&fresh, fs::Permissions::from_mode(0o644))?;
            fs::rename(&fresh, &to)
        };
        put().map_err(|why| Failure::file("write", &to, why))
    }

    /// Makes a symbolic link, in place of a file that is there.
    pub(super) fn link(&mut self, target: &str, place: &str) -> Result<(), Failure> {
        let (to, fresh) = self.take(place)?;
        let put = || {
            // An installation that was killed may have left it.
            gone_or(fs::remove_file(&fresh))?;
            std::os::unix::fs::symlink(target, &fresh)?;
            fs::rename(&fresh, &to)
        };
        put().map_err(|why| Failure::file("write", &to, why))
    }

    /// Copies all files below a folder to the same places below the root.
    pub(super) fn folder(&mut self, from: &Path, mode: u32) -> Result<(), Failure> {
        let mut open = vec![from.to_owned()];
        while let Some(folder) = open.pop() {
            let read = |why| Failure::file("read", &folder, why);
            for entry in fs::read_dir(&folder).map_err(read)? {
                let path = entry.map_err(read)?.path();
                if path.is_dir() {
                    open.push(path);
                    continue;
                }
                let place = path.strip_prefix(from).unwrap_or(&path).to_string_lossy();
                self.file(&path, &place, mode)?;
            }
        }
        Ok(())
    }

    /// Takes away what the earlier installation had and this one has not, and writes the list.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let is_folder = |place: &&String| place.ends_with('/');
        // Folders that were made then hold files of now.
        let kept: Vec<String> = self.earlier.iter().filter(is_folder).cloned().collect();
        self.places.extend(kept);
        // The earlier list may have another name for a file of now, if `lib64` is a link to `lib`.
        let real = |place: &String| {
            let path = self.root.join(place);
            Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
        };
        let now: BTreeSet<PathBuf> = self.places.iter().filter_map(real).collect();
        let over = { self.earlier.difference(&self.places) }
            .filter(|place| real(place).is_none_or(|path| !now.contains(&path)));
        let over: Vec<String> = over.cloned().collect();
        clear(&self.root, &over)?;
        self.take(LIST)?;
        let lines: String = self
            .places
            .iter()
            .map(|place| format!("{place}\n"))
            .collect();
        self.text(&lines, LIST)
    }

    /// Notes a place and makes the folders above it. Returns its path and that of the file that is
    /// to be renamed to it.
    fn take(&mut self, place: &str) -> Result<(PathBuf, PathBuf), Failure> {
        let to = self.root.join(place);
        let above: Vec<&Path> = Path::new(place).ancestors().skip(1).collect();
        for folder in above
            .into_iter()
            .rev()
            .filter(|above| *above != Path::new(""))
        {
            let path = self.root.join(folder);
            match fs::create_dir(&path) {
                Ok(()) => {
                    self.places.insert(format!("{}/", folder.display()));
                }
                Err(_) if path.is_dir() => {}
                Err(why) => return Err(Failure::file("make", &path, why)),
            }
        }
        self.places.insert(place.to_owned());
        let name = to.file_name().unwrap_or(OsStr::new("file"));
        let fresh = to.with_file_name(format!(".{}.new", name.to_string_lossy()));
        Ok((to, fresh))
    }
}

/// Takes away what an installation below `root` put there. Folders that hold other files stay.
///
/// Returns how many files there were.
pub(super) fn remove(root: &Path) -> Result<usize, Failure> {
    let Some(places) = listed(root)? else {
        return Err(Failure::Missing(format!(
            "nothing to remove: {} is not there; name the --prefix (and --destdir) of the \
             installation",
            root.join(LIST).display()
        )));
    };
    let places: Vec<String> = places.into_iter().collect();
    clear(root, &places)
}

/// The list of the installation below `root`, if there is one.
fn listed(root: &Path) -> Result<Option<BTreeSet<String>>, Failure> {
    let path = root.join(LIST);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(Failure::file("read", &path, why)),
    };
    let inside = |line: &str| {
        let mut parts = Path::new(line).components();
        parts.all(|part| matches!(part, Component::Normal(_)))
    };
    if let Some(line) = text.lines().find(|line| !inside(line)) {
        return Err(Failure::Wrong(format!(
            "{} names '{line}', which is outside of {}; correct the list by hand",
            path.display(),
            root.display()
        )));
    }
    Ok(Some(text.lines().map(str::to_owned).collect()))
}

/// Removes files, then the folders among the places that are empty, innermost first.
fn clear(root: &Path, places: &[String]) -> Result<usize, Failure> {
    let (folders, files): (Vec<_>, Vec<_>) = places.iter().partition(|place| place.ends_with('/'));
    for place in &files {
        let path = root.join(place);
        gone_or(fs::remove_file(&path)).map_err(|why| Failure::file("remove", &path, why))?;
    }
    // A folder sorts before what is in it.
    for place in folders.into_iter().rev() {
        let path = root.join(place);
        match gone_or(fs::remove_dir(&path)) {
            Err(why) if why.kind() != io::ErrorKind::DirectoryNotEmpty => {
                return Err(Failure::file("remove", &path, why));
            }
            _ => {}
        }
    }
    Ok(files.len())
}

/// What is gone already is no error.
fn gone_or(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(root: &Path, places: &[&str]) {
        let mut tree = Tree::at(root).expect("a folder");
        for place in places {
            tree.text("text", place).expect("a file");
        }
        tree.finish().expect("the list");
    }

    #[test]
    fn a_second_installation_takes_away_what_it_has_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        install(root, &["bin/limic", "share/old/page"]);
        install(root, &["bin/limic", "share/new/page"]);
        assert!(!root.join("share/old/page").exists());
        assert!(root.join("share/new/page").exists());
        remove(root).expect("it is there");
        assert_eq!(fs::read_dir(root).expect("the root").count(), 0);
    }

    #[test]
    fn a_file_of_now_stays_though_the_earlier_list_calls_it_otherwise() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        fs::create_dir(root.join("lib")).expect("a folder");
        std::os::unix::fs::symlink("lib", root.join("lib64")).expect("a link");
        install(root, &["lib64/pkgconfig/limic.pc", "lib64/over.a"]);
        install(root, &["lib//pkgconfig/limic.pc"]);
        install(root, &["lib/pkgconfig/limic.pc"]);
        assert!(root.join("lib/pkgconfig/limic.pc").exists());
        assert!(!root.join("lib/over.a").exists());
        remove(root).expect("it is there");
        let left = fs::read_dir(root.join("lib")).expect("the folder");
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn a_list_that_leads_outside_removes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("prefix");
        install(&root, &["bin/limic"]);
        let other = folder.path().join("other");
        fs::write(&other, "").expect("a file");
        fs::write(root.join(LIST), "bin/limic\n../other\n").expect("the list");
        let refused = remove(&root).expect_err("it names a file of somebody else");
        assert!(refused.to_string().contains("../other"), "{refused}");
        assert!(other.exists() && root.join("bin/limic").exists());
    }
}
