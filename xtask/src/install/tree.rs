//! What lies below a prefix, and the list of it, by which it is taken away again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use limic_runner::Failure;

/// The list, below the prefix: a file a line, or a folder that was made for them, which ends in a
/// slash.
pub(super) const LIST: &str = "share/limic/installed";

/// An installation that is being laid out.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    /// The list, if there is to be one: each place is in it before anything is there, so that what
    /// was interrupted can be taken away.
    list: Option<File>,
    /// What the installation has so far, relative to the root.
    places: BTreeSet<String>,
    /// What an earlier installation put there.
    earlier: BTreeSet<String>,
}

impl Tree {
    /// One without a list.
    pub(crate) fn at(root: &Path) -> Result<Self, Failure> {
        let above: Vec<&Path> = root.ancestors().collect();
        { above.into_iter().rev() }
            .filter(|folder| *folder != Path::new(""))
            .try_for_each(make)?;
        Ok(Self {
            root: root.to_owned(),
            list: None,
            places: BTreeSet::new(),
            earlier: BTreeSet::new(),
        })
    }

    /// One that can be taken away again, or takes the place of an earlier one.
    pub(super) fn listed_at(root: &Path) -> Result<Self, Failure> {
        let mut tree = Self::at(root)?;
        tree.earlier = listed(root)?.unwrap_or_default();
        let (path, fresh) = tree.take(LIST)?;
        // A file anew: the earlier one may be another user's.
        let put = || {
            gone_or(fs::remove_file(&fresh))?;
            let mut list = File::create_new(&fresh)?;
            for place in tree.earlier.union(&tree.places) {
                writeln!(list, "{place}")?;
            }
            fs::rename(&fresh, &path)?;
            Ok(list)
        };
        let list = put().map_err(|why| Failure::file("write", &path, why))?;
        tree.list = Some(list);
        Ok(tree)
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

    /// Takes away what the earlier installation had and this one has not, and writes the list anew.
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
        clear(&self.root, over.cloned().collect())?;
        let lines: String = self
            .places
            .iter()
            .map(|place| format!("{place}\n"))
            .collect();
        self.text(&lines, LIST)
    }

    /// Writes a place into the list.
    fn note(&mut self, place: &str) -> Result<(), Failure> {
        let list = self.list.as_mut();
        let noted = list.map_or(Ok(()), |list| {
            list.write_all(format!("{place}\n").as_bytes())
        });
        noted.map_err(|why| Failure::file("write", &self.root.join(LIST), why))
    }

    /// Notes a place and makes the folders above it. Returns its path and that of the file that is
    /// to be renamed to it.
    fn take(&mut self, place: &str) -> Result<(PathBuf, PathBuf), Failure> {
        let to = Path::new(place);
        let above: Vec<&Path> = to.ancestors().skip(1).collect();
        for folder in above
            .into_iter()
            .rev()
            .filter(|above| *above != Path::new(""))
        {
            let path = self.root.join(folder);
            if !path.is_dir() {
                let place = format!("{}/", folder.display());
                self.note(&place)?;
                self.places.insert(place);
                make(&path)?;
            }
        }
        let name = to.file_name().unwrap_or(OsStr::new("file"));
        let fresh = to.with_file_name(format!(".{}.new", name.to_string_lossy()));
        self.note(&fresh.to_string_lossy())?;
        self.note(place)?;
        self.places.insert(place.to_owned());
        Ok((self.root.join(to), self.root.join(fresh)))
    }
}

/// Makes a folder that all users may look into, whatever the umask of the one who installs.
fn make(folder: &Path) -> Result<(), Failure> {
    let put = || match fs::create_dir(folder) {
        Err(_) if folder.is_dir() => Ok(()),
        made => {
            made?;
            let mode = fs::metadata(folder)?.permissions().mode();
            fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o755))
        }
    };
    put().map_err(|why| Failure::file("make", folder, why))
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
    clear(root, places.into_iter().collect())
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

/// Removes files, then the folders among the places that are empty, innermost first. The list and
/// its folders go last, so that a removal that was interrupted can be repeated.
fn clear(root: &Path, mut places: Vec<String>) -> Result<usize, Failure> {
    let is_folder = |place: &str| place.ends_with('/');
    // Folders end in a slash: those that the list begins with are above it.
    let turn = |place: &str| (LIST.starts_with(place), is_folder(place));
    // A folder sorts before what is in it.
    places.sort_unstable_by(|one, other| turn(one).cmp(&turn(other)).then(other.cmp(one)));
    for place in &places {
        let path = root.join(place);
        let done = match is_folder(place) {
            true => fs::remove_dir(&path),
            false => fs::remove_file(&path),
        };
        match gone_or(done) {
            Err(why) if why.kind() != io::ErrorKind::DirectoryNotEmpty => {
                return Err(Failure::file("remove", &path, why));
            }
            _ => {}
        }
    }
    Ok(places.iter().filter(|place| !is_folder(place)).count())
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
    use rustix::fs::Mode;
    use rustix::process::umask;

    use super::*;

    /// An installation that was interrupted before its end.
    fn begin(root: &Path, places: &[&str]) -> Tree {
        let mut tree = Tree::listed_at(root).expect("a folder");
        for place in places {
            tree.text("text", place).expect("a file");
        }
        tree
    }

    fn install(root: &Path, places: &[&str]) {
        begin(root, places).finish().expect("the list");
    }

    fn is_empty(folder: &Path) -> bool {
        fs::read_dir(folder).expect("a folder").next().is_none()
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
        assert!(is_empty(root));
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
        assert!(is_empty(&root.join("lib")));
    }

    #[test]
    fn what_was_interrupted_can_be_taken_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        begin(root, &["lib/old.a"]);
        fs::write(root.join("lib/.old.a.new"), "").expect("a file that was not renamed");
        remove(root).expect("it is known");
        assert!(is_empty(root));
        begin(root, &["lib/old.a"]);
        install(root, &["lib/new.a"]);
        assert!(!root.join("lib/old.a").exists());
        remove(root).expect("it is known");
        assert!(is_empty(root), "folders of the first try are gone too");
    }

    #[test]
    fn a_removal_that_failed_can_be_repeated() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        // They sort before and after the list.
        for place in ["bin/limic", "share/man/page"] {
            install(root, &[place]);
            fs::remove_file(root.join(place)).expect("it is there");
            fs::create_dir(root.join(place)).expect("what is no file");
            remove(root).expect_err("a folder is no file");
            fs::remove_dir(root.join(place)).expect("it is there");
            remove(root).expect("the list is there");
            assert!(is_empty(root));
        }
    }

    #[test]
    fn all_users_may_look_into_each_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("opt/limic");
        let before = umask(Mode::RWXG | Mode::RWXO);
        install(&root, &["share/man/page"]);
        umask(before);
        for place in ["..", "", "share", "share/man", "share/limic"] {
            let made = fs::metadata(root.join(place)).expect("a folder");
            assert_eq!(made.permissions().mode() & 0o777, 0o755, "{place}");
        }
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
