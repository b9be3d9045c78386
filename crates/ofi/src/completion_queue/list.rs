//! The completions that nobody has read yet, in the order in which their operations ended: a row
//! in memory of its own. An empty list begins at the first place again, so that few cache lines
//! are touched.

use core::cell::Cell;

use super::Completion;

/// Places at first.
const PLACES: usize = 64;

/// Touched in the turns of its queue alone.
pub(super) struct List {
    /// The oldest completion; null if there is none.
    head: Cell<*mut Completion>,
    /// The place of the next one.
    tail: Cell<*mut Completion>,
    /// The first place, and the end of the last one.
    start: Cell<*mut Completion>,
    end: Cell<*mut Completion>,
    /// The memory of the places; as a vector it is empty.
    memory: Cell<Vec<Completion>>,
}

impl List {
    pub(super) fn new() -> Self {
        let mut memory = Vec::with_capacity(PLACES);
        let start: *mut Completion = memory.as_mut_ptr();
        Self {
            head: Cell::new(core::ptr::null_mut()),
            tail: Cell::new(start),
            start: Cell::new(start),
            end: Cell::new(start.wrapping_add(memory.capacity())),
            memory: Cell::new(memory),
        }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.head.get().is_null()
    }

    /// Puts a completion at the end. Whether it is the only one. Allocates only if more wait than
    /// ever before.
    #[inline(always)]
    pub(super) fn push(&self, completion: Completion) -> bool {
        if self.tail.get() == self.end.get() {
            self.make_room();
        }
        let place = self.tail.get();
        // SAFETY: a place of the memory, since it is not its end; nobody has a reference to one.
        unsafe { place.write(completion) };
        self.tail.set(place.wrapping_add(1));
        let is_first = self.is_empty();
        if is_first {
            self.head.set(place);
        }
        is_first
    }

    /// Moves all to the first places, in longer memory if they fill more than half of this.
    #[cold]
    fn make_room(&self) {
        let mut memory = self.memory.take();
        // SAFETY: each place is initialized, since `tail` has passed all of them.
        unsafe { memory.set_len(memory.capacity()) };
        let waiting = self.len();
        memory.drain(..memory.len() - waiting);
        memory.reserve(waiting);
        let start = memory.as_mut_ptr();
        memory.clear();
        self.head.set(start);
        self.tail.set(start.wrapping_add(waiting));
        self.start.set(start);
        self.end.set(start.wrapping_add(memory.capacity()));
        self.memory.set(memory);
    }

    pub(super) fn len(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        (self.tail.get().addr() - self.head.get().addr()) / size_of::<Completion>()
    }

    /// The completion at this position, counted from the oldest.
    pub(super) fn get(&self, at: usize) -> Option<Completion> {
        // SAFETY: the completions from `head` on are initialized.
        (at < self.len()).then(|| unsafe { self.head.get().wrapping_add(at).read() })
    }

    /// The oldest one, in its place: a copy of all its fields would take longer.
    ///
    /// # Safety
    /// Nothing is put into the list, or taken out, while the reference is used.
    #[inline(always)]
    pub(super) unsafe fn oldest(&self) -> Option<&Completion> {
        // SAFETY: written by `push`; the caller's promise.
        unsafe { self.head.get().as_ref() }
    }

    /// Takes the oldest one out.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    pub(super) unsafe fn drop_oldest(&self) {
        let next = self.head.get().wrapping_add(1);
        if next == self.tail.get() {
            self.clear();
        } else {
            self.head.set(next);
        }
    }

    #[inline(always)]
    fn clear(&self) {
        self.head.set(core::ptr::null_mut());
        self.tail.set(self.start.get());
    }

    /// Takes those out that `keep` does not want.
    pub(super) fn retain(&self, keep: impl Fn(&Completion) -> bool) {
        let waiting: Vec<Completion> = (0..).map_while(|at| self.get(at)).collect();
        self.clear();
        for completion in waiting.into_iter().filter(keep) {
            self.push(completion);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Node;

    fn numbered(tag: u64) -> Completion {
        Completion {
            context: core::ptr::null_mut(),
            node: Node { tag, ..Node::EMPTY },
        }
    }

    fn read(list: &List) -> Option<u64> {
        let oldest = list.get(0)?;
        // SAFETY: there is one.
        unsafe { list.drop_oldest() };
        Some(oldest.node.tag)
    }

    #[test]
    fn what_ends_first_is_read_first_however_many_wait() {
        let list = List::new();
        let (mut pushed, mut seen) = (0, 0);
        for waiting in [1, PLACES - 1, PLACES, PLACES + 1, 5 * PLACES, 3] {
            for _ in 0..waiting {
                assert_eq!(list.push(numbered(pushed)), seen == pushed);
                pushed += 1;
            }
            // One is left.
            while seen + 1 < pushed {
                assert_eq!(read(&list), Some(seen));
                seen += 1;
            }
        }
        assert_eq!((read(&list), read(&list)), (Some(seen), None));
        assert!(list.is_empty() && list.push(numbered(0)));
    }

    #[test]
    fn memory_grows_with_what_waits_alone() {
        let list = List::new();
        let memory = list.start.get();
        for tag in 0..10 * PLACES as u64 {
            list.push(numbered(tag));
            if tag >= PLACES as u64 / 2 {
                assert_eq!(read(&list), Some(tag - PLACES as u64 / 2));
            }
        }
        assert_eq!(list.start.get(), memory);
    }

    #[test]
    fn what_is_kept_keeps_its_order() {
        let list = List::new();
        list.retain(|_| true);
        assert!(list.is_empty());
        (0..9).for_each(|tag| _ = list.push(numbered(tag)));
        list.retain(|one| one.node.tag % 3 == 1);
        let left: Vec<u64> = core::iter::from_fn(|| read(&list)).collect();
        assert_eq!(left, [1, 4, 7]);
    }
}
