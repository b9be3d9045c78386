//! A table whose places carry generations, so that an old number never names a new thing.

/// What a number of this table looks like: generation in the upper half, place in the lower one.
/// Bit 31 of the place is never set.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Enters a value. Allocates only when more are in the table than ever before.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 1,
                value: None,
            });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[at as usize];
        place.value = Some(value);
        u64::from(place.generation) << 32 | u64::from(at)
    }

    fn place(&mut self, number: u64) -> Option<&mut Place<T>> {
        let place = self.places.get_mut(number as u32 as usize)?;
        (u64::from(place.generation) == number >> 32).then_some(place)
    }

    pub(crate) fn get(&mut self, number: u64) -> Option<&mut T> {
        self.place(number)?.value.as_mut()
    }

    /// Takes a value out; its number is void from then on.
    #[inline]
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        let place = self.place(number)?;
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1).max(1);
        self.free.push(number as u32);
        Some(value)
    }

    /// All values, in no order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.places
            .iter_mut()
            .filter_map(|place| place.value.take())
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
        assert_eq!(slab.get(a), Some(&mut 'a'));
        assert_eq!(slab.take(a), Some('a'));
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.take(a), None);
        let c = slab.insert('c');
        assert_eq!(c as u32, a as u32, "places are used again");
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.get(c), Some(&mut 'c'));
        assert_eq!(slab.get(u64::MAX), None);
        assert_eq!(slab.get(0), None);
        let mut rest: Vec<char> = slab.drain().collect();
        rest.sort_unstable();
        assert_eq!(rest, ['b', 'c']);
        assert_eq!(slab.get(b), None);
    }
}
