//! The pages of an arena: runs that are in use, and free ones.
//!
//! What is known of a run stands beside the arena and not in it, so peers that map the arena see
//! nothing but what lies in its blocks, and a block begins on a page.

/// No page.
const NONE: u32 = u32::MAX;
/// Set in the tag of a run that is in use.
const USED: u32 = 1 << 31;
/// Classes of free runs: one for each power of two.
const CLASSES: usize = 31;
/// Free runs of a block's own class that are looked at, before one of a higher class is taken,
/// where each fits.
const LOOKS: usize = 8;

/// # Invariants
/// - Runs cover all pages, one behind the other. The tags of a run's first and last page say its
///   length, and whether it is in use.
/// - No two free runs are neighbours. Each free run is in the list of its class.
#[derive(Debug)]
pub(crate) struct Runs {
    tags: Vec<u32>,
    /// For the first page of a free run: the next one of its class, and the one before.
    links: Vec<[u32; 2]>,
    heads: [u32; CLASSES],
    pages_in_use: u32,
    /// No page from this one on was ever in use.
    untouched: u32,
}

/// A run that was just taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) page: u32,
    /// Its pages were never in use, so that they are zero.
    pub(crate) untouched: bool,
}

impl Runs {
    /// So many pages, all free. `None`: there is no memory to keep account of them.
    pub(crate) fn new(pages: u32) -> Option<Self> {
        let (mut tags, mut links) = (Vec::new(), Vec::new());
        tags.try_reserve_exact(pages as usize).ok()?;
        links.try_reserve_exact(pages as usize).ok()?;
        tags.resize(pages as usize, 0);
        links.resize(pages as usize, [NONE; 2]);
        let mut runs = Self {
            tags,
            links,
            heads: [NONE; CLASSES],
            pages_in_use: 0,
            untouched: 0,
        };
        runs.put(0, pages);
        Some(runs)
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.pages_in_use == 0
    }

    /// Pages of the run in use that begins here.
    pub(crate) fn pages_at(&self, page: u32) -> u32 {
        self.tags[page as usize] & !USED
    }

    /// Takes a run of so many pages, at least one.
    pub(crate) fn take(&mut self, pages: u32) -> Option<Taken> {
        let page = self.find(pages)?;
        let has = self.unlist(page);
        self.tag(page, pages, USED);
        if has > pages {
            self.put(page + pages, has - pages);
        }
        self.pages_in_use += pages;
        let untouched = page >= self.untouched;
        self.untouched = self.untouched.max(page + pages);
        Some(Taken { page, untouched })
    }

    fn find(&self, pages: u32) -> Option<u32> {
        let class = class_of(pages);
        let mut page = self.heads[class];
        for _ in 0..LOOKS {
            if page == NONE {
                break;
            }
            if self.tags[page as usize] >= pages {
                return Some(page);
            }
            page = self.links[page as usize][0];
        }
        let higher = self.heads[class + 1..].iter();
        higher.copied().find(|head| *head != NONE)
    }

    /// Gives back the run that begins here.
    pub(crate) fn give_back(&mut self, page: u32) {
        let pages = self.pages_at(page);
        self.pages_in_use -= pages;
        self.free(page, pages);
    }

    /// Makes the run that begins here so many pages long, where it lies. False: that cannot be.
    pub(crate) fn resize(&mut self, page: u32, pages: u32) -> bool {
        let has = self.pages_at(page);
        if pages > has {
            let behind = page + has;
            let more = pages - has;
            if self.free_pages_at(behind) < more {
                return false;
            }
            let free = self.unlist(behind);
            if free > more {
                self.put(behind + more, free - more);
            }
            self.tag(page, pages, USED);
            self.pages_in_use += more;
            self.untouched = self.untouched.max(page + pages);
        } else if pages < has {
            self.tag(page, pages, USED);
            self.pages_in_use -= has - pages;
            self.free(page + pages, has - pages);
        }
        true
    }

    /// Frees pages, together with free ones before and behind them.
    fn free(&mut self, page: u32, pages: u32) {
        let (mut start, mut len) = (page, pages);
        if self.free_pages_at(page + pages) > 0 {
            len += self.unlist(page + pages);
        }
        if let Some(before) = page.checked_sub(1).map(|last| self.tags[last as usize]) {
            if before & USED == 0 {
                start -= before;
                len += self.unlist(start);
            }
        }
        self.put(start, len);
    }

    /// The length of the free run that begins here; 0 if one in use does, or the arena ends.
    fn free_pages_at(&self, page: u32) -> u32 {
        match self.tags.get(page as usize) {
            Some(tag) if tag & USED == 0 => *tag,
            _ => 0,
        }
    }

    fn tag(&mut self, page: u32, pages: u32, used: u32) {
        self.tags[page as usize] = pages | used;
        self.tags[(page + pages - 1) as usize] = pages | used;
    }

    /// Puts a free run into the list of its class.
    fn put(&mut self, page: u32, pages: u32) {
        self.tag(page, pages, 0);
        let head = &mut self.heads[class_of(pages)];
        let next = core::mem::replace(head, page);
        self.links[page as usize] = [next, NONE];
        if next != NONE {
            self.links[next as usize][1] = page;
        }
    }

    /// Takes a free run out of its list. Gives its length.
    fn unlist(&mut self, page: u32) -> u32 {
        let pages = self.tags[page as usize];
        let [next, before] = self.links[page as usize];
        if before == NONE {
            self.heads[class_of(pages)] = next;
        } else {
            self.links[before as usize][0] = next;
        }
        if next != NONE {
            self.links[next as usize][1] = before;
        }
        pages
    }
}

/// The class of a run: all of a higher one are longer.
fn class_of(pages: u32) -> usize {
    pages.max(1).ilog2() as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    impl Runs {
        /// Checks the invariants; gives the runs in use.
        fn check(&self) -> BTreeMap<u32, u32> {
            let mut used = BTreeMap::new();
            let (mut page, mut was_free) = (0, false);
            let mut free = 0;
            while (page as usize) < self.tags.len() {
                let tag = self.tags[page as usize];
                let pages = tag & !USED;
                assert!(pages > 0, "a run has pages");
                assert_eq!(tag, self.tags[(page + pages - 1) as usize], "both its ends");
                let is_free = tag & USED == 0;
                assert!(!(is_free && was_free), "free runs are neighbours");
                if is_free {
                    free += 1;
                } else {
                    used.insert(page, pages);
                }
                (page, was_free) = (page + pages, is_free);
            }
            assert_eq!(used.values().sum::<u32>(), self.pages_in_use);
            let mut listed = 0;
            for (class, head) in self.heads.iter().enumerate() {
                let (mut page, mut before) = (*head, NONE);
                while page != NONE {
                    assert_eq!(class_of(self.tags[page as usize]), class);
                    assert_eq!(self.links[page as usize][1], before);
                    listed += 1;
                    (before, page) = (page, self.links[page as usize][0]);
                }
            }
            assert_eq!(listed, free);
            used
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(u32),
        GiveBack(usize),
        Resize(usize, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1_u32..40).prop_map(Step::Take),
            any::<usize>().prop_map(Step::GiveBack),
            (any::<usize>(), 1_u32..40).prop_map(|(which, pages)| Step::Resize(which, pages)),
        ]
    }

    proptest! {
        #[test]
        fn runs_never_overlap_and_none_is_lost(steps in prop::collection::vec(step(), 1..200)) {
            let mut runs = Runs::new(200).expect("memory");
            let mut model = BTreeMap::new();
            let mut touched = 0;
            for step in steps {
                let nth = |model: &BTreeMap<u32, u32>, which: usize| {
                    model.keys().copied().nth(which % model.len().max(1))
                };
                match step {
                    Step::Take(pages) => {
                        if let Some(taken) = runs.take(pages) {
                            prop_assert_eq!(taken.untouched, taken.page >= touched);
                            touched = touched.max(taken.page + pages);
                            model.insert(taken.page, pages);
                        } else {
                            // In the class of the run, a longer one may have been passed over.
                            let free = 200 - model.values().sum::<u32>();
                            prop_assert!(free < 200);
                        }
                    }
                    Step::GiveBack(which) => {
                        if let Some(page) = nth(&model, which) {
                            runs.give_back(page);
                            model.remove(&page);
                        }
                    }
                    Step::Resize(which, pages) => {
                        if let Some(page) = nth(&model, which) {
                            let shrinks = pages <= model[&page];
                            if runs.resize(page, pages) {
                                model.insert(page, pages);
                                touched = touched.max(page + pages);
                            } else {
                                prop_assert!(!shrinks);
                            }
                        }
                    }
                }
                prop_assert_eq!(&runs.check(), &model);
            }
            for page in model.into_keys() {
                runs.give_back(page);
            }
            prop_assert!(runs.is_unused());
            prop_assert_eq!(runs.take(200).map(|taken| taken.page), Some(0));
        }
    }
}
