//! Where Debian's archive is: what `LIMIC_LAB_MIRROR` names, else what this machine's own apt uses.

use crate::failure::Failure;
use crate::job::Job;

const VARIABLE: &str = "LIMIC_LAB_MIRROR";

/// The archive's address: the folder that holds `dists` and `pool`, without a slash at the end.
pub(crate) fn find() -> Result<String, Failure> {
    if let Ok(named) = std::env::var(VARIABLE)
        && !named.is_empty()
    {
        return Ok(named.trim_end_matches('/').to_owned());
    }
    // What was fetched says whose archive it is; before the first `apt-get update` there are addresses alone.
    let known = targets(&[], "$(LABEL) $(REPO_URI)").and_then(|listed| labelled(&listed));
    known
        .or_else(|| {
            targets(&["--no-release-info"], "$(REPO_URI)").and_then(|listed| called(&listed))
        })
        .ok_or_else(|| {
            Failure::Missing(format!(
                "the apt of this machine knows no archive of Debian's; {VARIABLE}=<address of a mirror of it, the \
                 folder that holds dists and pool> names one"
            ))
        })
}

/// How a message says which mirror failed and what can be done.
pub(crate) const ADVICE: &str = "LIMIC_LAB_MIRROR names another mirror of Debian's archive";

/// What apt says of the package indices that it is told to use.
fn targets(options: &[&str], format: &str) -> Option<String> {
    Job::new("apt-get", 1)
        .args(&["indextargets"])
        .args(options)
        .args(&["--format", format, "Created-By: Packages"])
        .capture_quietly()
}

/// The first address of an archive that calls itself Debian.
fn labelled(listed: &str) -> Option<String> {
    let mut addresses = listed
        .lines()
        .filter_map(|line| line.strip_prefix("Debian "));
    addresses.find_map(fetchable)
}

/// The first address that ends with Debian's name.
fn called(listed: &str) -> Option<String> {
    let mut addresses = listed.lines().filter_map(fetchable);
    addresses.find(|address| address.ends_with("/debian"))
}

/// An address that curl can fetch from: no CD, and none of apt's own methods.
fn fetchable(address: &str) -> Option<String> {
    let known = ["http://", "https://", "file:/"];
    let address = address.trim().trim_end_matches('/');
    let plain = known.iter().any(|start| address.starts_with(start));
    plain.then(|| address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_is_found_among_other_archives() {
        let listed = "Debian cdrom://disc/\nDebian-Security http://one.example/debian-security/\n\
                      Other Vendor https://two.example/debian/\nDebian http://three.example/debian/\n";
        assert_eq!(
            labelled(listed).as_deref(),
            Some("http://three.example/debian")
        );
        assert_eq!(labelled("Ubuntu http://four.example/ubuntu/\n"), None);
        let plain = "http://one.example/debian-security/\nhttps://two.example/debian/\n";
        assert_eq!(called(plain).as_deref(), Some("https://two.example/debian"));
        assert_eq!(called("mirror+file:/etc/apt/mirrors/debian\n"), None);
    }
}
