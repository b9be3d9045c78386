//! A table whose places carry generations, so that an old number never names a new thing.

/// Values by number. The upper half of a number is a generation, the lower half a place.
///
/// Bit 31 of a number is never set, and 0 is never a number: callers may give both a meaning.
///
/// ```
/// let mut slab = limic_ffi::Slab::new();
/// let old = slab.insert("one");
/// assert_eq!(slab.take(old), Some("one"));
/// let new = slab.insert("two");
/// assert_eq!(slab.get_mut(old), None);
/// assert_eq!(slab.get_mut(new), Some(&mut "two"));
/// ```
#[derive(Debug)]
pub struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    /// Of the value that is here now, or of the next one.
    generation: u32,
    value: Option<T>,
}

/// Numbers of places stay below: bit 31 is the callers'.
const PLACES: usize = 1 << 31;

impl<T> Slab<T> {
    /// An empty table, without memory.
    pub const fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Enters a value. Takes memory only when the table holds more than ever before.
    ///
    /// # Panics
    /// If the table holds 2^31 values.
    #[inline]
    pub fn insert(&mut self, value: T) -> u64 {
        let at = self.free.pop().unwrap_or_else(|| self.add_place());
        let place = &mut self.places[at as usize];
        place.value = Some(value);
        u64::from(place.generation) << 32 | u64::from(at)
    }

    fn add_place(&mut self) -> u32 {
        let at = self.places.len();
        assert!(at < PLACES, "a table of handles is full");
        self.places.push(Place {
            generation: 1,
            value: None,
        });
        at as u32
    }

    fn place(&mut self, number: u64) -> Option<&mut Place<T>> {
        let place = self.places.get_mut(number as u32 as usize)?;
        (u64::from(place.generation) == number >> 32).then_some(place)
    }

    /// The value of a number, unless it was taken out.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&T> {
        let place = self.places.get(number as u32 as usize)?;
        let is_its = u64::from(place.generation) == number >> 32;
        place.value.as_ref().filter(|_| is_its)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.place(number)?.value.as_mut()
    }

    /// Takes a value out; its number names nothing from then on.
    #[inline]
    pub fn take(&mut self, number: u64) -> Option<T> {
        let place = self.place(number)?;
        let value = place.value.take()?;
        // A place whose generations are used up stays empty: none comes twice.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(number as u32);
        }
        Some(value)
    }

    /// Takes all values out, in no order.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        (0..self.places.len()).filter_map(|at| {
            let generation = self.places[at].generation;
            self.take(u64::from(generation) << 32 | at as u64)
        })
    }

    /// How many values there are. A place whose generations are used up counts too.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_numbers_mean_nothing() {
        let mut slab = Slab::new();
        let a = slab.insert('a');
        let b = slab.insert('b');
        assert_eq!(slab.get_mut(a), Some(&mut 'a'));
        assert_eq!(slab.get(a), Some(&'a'));
        assert_eq!(slab.take(a), Some('a'));
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.get_mut(a), None);
        assert_eq!(slab.take(a), None);
        let c = slab.insert('c');
        assert_eq!(c as u32, a as u32, "places are used again");
        assert_eq!(slab.get_mut(a), None);
        assert_eq!(slab.get_mut(c), Some(&mut 'c'));
        assert_eq!(slab.get_mut(b), Some(&mut 'b'));
    }

    #[test]
    fn numbers_that_were_never_given_mean_nothing() {
        let mut slab = Slab::new();
        let number = slab.insert('a');
        assert_ne!(number, 0);
        assert_eq!(slab.get_mut(0), None);
        assert_eq!(slab.get_mut(u64::MAX), None);
        assert_eq!(slab.take(number | 1 << 31), None, "bit 31 is the caller's");
        assert_eq!(slab.take(number), Some('a'));
    }

    #[test]
    fn a_drained_table_is_empty_and_gives_its_places_again() {
        let mut slab = Slab::new();
        let numbers = ['a', 'b', 'c'].map(|value| slab.insert(value));
        assert_eq!(slab.take(numbers[1]), Some('b'));
        let mut rest: Vec<char> = slab.drain().collect();
        rest.sort_unstable();
        assert_eq!(rest, ['a', 'c']);
        for number in numbers {
            assert_eq!(slab.get_mut(number), None);
        }
        assert!(slab.is_empty());
        let mut places = ['d', 'e', 'f'].map(|value| slab.insert(value) as u32);
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2]);
        assert_eq!(slab.len(), 3);
        assert_eq!(slab.drain().count(), 3);
        assert_eq!(slab.drain().count(), 0);
    }

    #[test]
    fn no_generation_comes_twice() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        slab.places[0].generation = u32::MAX;
        let last = u64::from(u32::MAX) << 32;
        assert_eq!(slab.take(last), Some('a'));
        let next = slab.insert('b');
        assert_eq!(next as u32, 1, "the place is given up");
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.get_mut(last), None);
    }
}
