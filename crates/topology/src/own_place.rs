//! Where an endpoint runs, and whether it has moved.

use rustix::thread::sched_getcpu;

use super::{CpuSet, Place, Topology};

/// Looks in a row that must find the same new place before it counts: a thread that is pushed aside
/// for a moment comes back.
const SETTLED: u32 = 2;

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// The same CPU as at the look before.
    Same,
    /// Another CPU, and the same cache and package; or a new place that has to be seen once more.
    Migrated,
    /// Another cache or package.
    Moved,
}

/// Where the calling thread runs: what its binding says, and where that spans several caches or
/// packages, the CPU on which it was seen.
#[derive(Clone, Debug)]
pub struct OwnPlace {
    cpu: usize,
    place: Place,
    /// A new place, and how often in a row it was seen.
    next: Option<(Place, u32)>,
    moved: bool,
}

impl OwnPlace {
    /// Of the calling thread. The first call in a process reads the topology.
    #[must_use]
    pub fn find_out() -> Self {
        let cpu = sched_getcpu();
        Self {
            cpu,
            place: place_at(cpu),
            next: None,
            moved: false,
        }
    }

    /// Where it is.
    #[inline]
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether it has moved since it was first found out.
    #[inline]
    #[must_use]
    pub fn has_moved(&self) -> bool {
        self.moved
    }

    /// Looks again. Without a migration that is one read of the CPU's number, without a system call
    /// where the kernel offers that.
    #[inline]
    pub fn check(&mut self) -> Movement {
        self.seen(sched_getcpu(), place_at)
    }

    fn seen(&mut self, cpu: usize, place_at: impl FnOnce(usize) -> Place) -> Movement {
        let migrated = cpu != self.cpu;
        if !migrated && self.next.is_none() {
            return Movement::Same;
        }
        self.cpu = cpu;
        let place = place_at(cpu);
        let looks = match self.next {
            Some((next, looks)) if next.domains() == place.domains() => looks + 1,
            _ => 1,
        };
        if place.domains() == self.place.domains() {
            // The binding may have changed within the place.
            self.place = place;
            self.next = None;
        } else if looks >= SETTLED {
            self.place = place;
            self.next = None;
            self.moved = true;
            return Movement::Moved;
        } else {
            self.next = Some((place, looks));
        }
        if migrated {
            Movement::Migrated
        } else {
            Movement::Same
        }
    }
}

/// Where the calling thread is, with its binding as it is now, while it runs on `cpu`.
fn place_at(cpu: usize) -> Place {
    let cpu = u32::try_from(cpu).ok();
    let topology = Topology::detect();
    let binding = Place::current();
    match cpu {
        Some(cpu) => binding.narrowed_to(Place::of(topology, &CpuSet::from_iter([cpu]))),
        None => binding,
    }
}

impl Place {
    /// This place, and where it is mixed, what `seen` says.
    fn narrowed_to(self, seen: Self) -> Self {
        let narrowed = |mine: u16, seen: u16| if mine == Self::MIXED { seen } else { mine };
        Self {
            package: narrowed(self.package, seen.package),
            cache: narrowed(self.cache, seen.cache),
            numa: narrowed(self.numa, seen.numa),
            // Bound to several CPUs is not bound to the one on which it was seen.
            cpu: self.cpu,
        }
    }

    /// What the locality depends on.
    fn domains(&self) -> (u16, u16) {
        (self.package, self.cache)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::two_packages;
    use limic_policy::Locality;

    /// An unbound thread of the machine with two packages, on a CPU.
    fn at(cpu: usize) -> Place {
        let topology = two_packages();
        let binding = Place::of(&topology, &"0-15".parse().expect("a CPU list"));
        let cpu = u32::try_from(cpu).expect("a small number");
        binding.narrowed_to(Place::of(&topology, &CpuSet::from_iter([cpu])))
    }

    fn on(cpu: usize) -> OwnPlace {
        OwnPlace {
            cpu,
            place: at(cpu),
            next: None,
            moved: false,
        }
    }

    #[test]
    fn an_unbound_process_is_where_it_runs() {
        assert_eq!(at(0).locality(&at(1)), Locality::SharedCache);
        assert_eq!(at(0).locality(&at(2)), Locality::SamePackage);
        assert_eq!(at(0).locality(&at(4)), Locality::OtherPackage);
        assert!(!at(0).is_bound());
    }

    #[test]
    fn only_a_move_that_stays_counts() {
        let mut thread = on(0);
        assert_eq!(thread.seen(0, |_| unreachable!("no move")), Movement::Same);
        assert_eq!(thread.seen(1, at), Movement::Migrated);
        assert_eq!(thread.place(), at(0));
        assert_eq!(thread.seen(4, at), Movement::Migrated);
        assert_eq!(thread.place(), at(0), "once is not enough");
        assert_eq!(thread.seen(5, at), Movement::Moved);
        assert_eq!(thread.place().locality(&at(4)), Locality::SharedCache);
        assert_eq!(thread.seen(5, |_| unreachable!("no move")), Movement::Same);
    }

    #[test]
    fn a_thread_that_is_pushed_aside_for_a_moment_has_not_moved() {
        let mut thread = on(0);
        for _ in 0..10 {
            assert_eq!(thread.seen(4, at), Movement::Migrated);
            assert_eq!(thread.seen(0, at), Movement::Migrated);
        }
        assert_eq!(thread.place(), at(0));
        // A new place at each look is no place.
        for cpu in [2, 4, 6, 2, 4, 6] {
            assert_eq!(thread.seen(cpu, at), Movement::Migrated);
        }
        assert_eq!(thread.place(), at(0));
    }

    #[test]
    fn this_thread_is_somewhere() {
        let mut here = OwnPlace::find_out();
        assert!(here.place().locality(&here.place()) >= Locality::SharedCache);
        here.check();
    }
}
