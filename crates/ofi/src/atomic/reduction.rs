//! What atomic operations do to memory, element by element.

use limic_ofi_abi::atomic::op;
use limic_shm::process::LockHere;

/// Bytes of an element of a type, numbered as libfabric does. `None`: unknown, or one that Rust
/// does not have (`long double`).
pub(crate) fn size_of_type(datatype: u32) -> Option<usize> {
    Some(match datatype {
        0 | 1 => 1,
        2 | 3 => 2,
        4 | 5 | 8 => 4,
        6 | 7 | 9 | 10 => 8,
        11 | 14 | 15 => 16,
        _ => return None,
    })
}

/// Whether the operation makes sense for the type.
pub(crate) fn knows(datatype: u32, op: u32) -> bool {
    match datatype {
        0..=7 | 14 | 15 => op <= op::MSWAP,
        8 | 9 => op <= op::CSWAP_GT && !matches!(op, op::BOR | op::BAND | op::BXOR),
        10 | 11 => matches!(
            op,
            op::SUM
                | op::PROD
                | op::LOR
                | op::LAND
                | op::LXOR
                | op::READ
                | op::WRITE
                | op::CSWAP
                | op::CSWAP_NE
        ),
        _ => false,
    }
}

/// A type of elements.
trait Element: Copy {
    /// What becomes of `old`; `None`: it stays.
    fn apply(op: u32, old: Self, operand: Self, compare: Self) -> Option<Self>;
}

/// Operations that ordered types share.
fn ordered<T: Copy + PartialOrd + PartialEq>(
    op: u32,
    old: T,
    operand: T,
    compare: T,
) -> Option<Option<T>> {
    let swap = |condition: bool| condition.then_some(operand);
    Some(match op {
        op::MIN => swap(operand < old),
        op::MAX => swap(operand > old),
        op::READ => None,
        op::WRITE => Some(operand),
        op::CSWAP => swap(compare == old),
        op::CSWAP_NE => swap(compare != old),
        op::CSWAP_LE => swap(compare <= old),
        op::CSWAP_LT => swap(compare < old),
        op::CSWAP_GE => swap(compare >= old),
        op::CSWAP_GT => swap(compare > old),
        _ => return None,
    })
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Element for $type {
            fn apply(op: u32, old: Self, operand: Self, compare: Self) -> Option<Self> {
                if let Some(done) = ordered(op, old, operand, compare) {
                    return done;
                }
                let truth = |value: bool| Self::from(value);
                Some(match op {
                    op::SUM => old.wrapping_add(operand),
                    op::PROD => old.wrapping_mul(operand),
                    op::LOR => truth(old != 0 || operand != 0),
                    op::LAND => truth(old != 0 && operand != 0),
                    op::LXOR => truth((old != 0) != (operand != 0)),
                    op::BOR => old | operand,
                    op::BAND => old & operand,
                    op::BXOR => old ^ operand,
                    op::MSWAP => (operand & compare) | (old & !compare),
                    _ => return None,
                })
            }
        }
    )*};
}

integer!(i8, u8, i16, u16, i32, u32, i64, u64, i128, u128);

macro_rules! float {
    ($($type:ty),*) => {$(
        impl Element for $type {
            fn apply(op: u32, old: Self, operand: Self, compare: Self) -> Option<Self> {
                if let Some(done) = ordered(op, old, operand, compare) {
                    return done;
                }
                let truth = |value: bool| if value { 1.0 } else { 0.0 };
                Some(match op {
                    op::SUM => old + operand,
                    op::PROD => old * operand,
                    op::LOR => truth(old != 0.0 || operand != 0.0),
                    op::LAND => truth(old != 0.0 && operand != 0.0),
                    op::LXOR => truth((old != 0.0) != (operand != 0.0)),
                    _ => return None,
                })
            }
        }

        impl Element for [$type; 2] {
            fn apply(op: u32, old: Self, operand: Self, compare: Self) -> Option<Self> {
                let is = |value: Self| value != [0.0, 0.0];
                let truth = |value: bool| if value { [1.0, 0.0] } else { [0.0, 0.0] };
                let ([a, b], [c, d]) = (old, operand);
                Some(match op {
                    op::SUM => [a + c, b + d],
                    op::PROD => [a * c - b * d, a * d + b * c],
                    op::LOR => truth(is(old) || is(operand)),
                    op::LAND => truth(is(old) && is(operand)),
                    op::LXOR => truth(is(old) != is(operand)),
                    op::WRITE => operand,
                    op::CSWAP if compare == old => operand,
                    op::CSWAP_NE if compare != old => operand,
                    _ => return None,
                })
            }
        }
    )*};
}

float!(f32, f64);

/// One operation on elements that lie side by side.
pub(crate) struct Reduction<'a> {
    pub(crate) datatype: u32,
    pub(crate) op: u32,
    /// Operands, one per element; nothing for a read.
    pub(crate) operand: &'a [u8],
    /// Second operands, for operations that compare.
    pub(crate) compare: &'a [u8],
}

/// Serialises operations of all endpoints of this process: two of them may expose the same memory.
static TURN: LockHere<()> = LockHere::new(());

impl Reduction<'_> {
    /// Changes `count` elements, and puts what they were before behind what is in `before`.
    ///
    /// # Safety
    /// `target` is valid for `count` elements of the type; others change it only through this
    /// function, or accept to be torn.
    pub(crate) unsafe fn run(&self, target: *mut u8, count: usize, before: &mut Vec<u8>) {
        let _turn = TURN.lock();
        // SAFETY: the caller's promise.
        unsafe {
            match self.datatype {
                0 => self.elements::<i8>(target, count, before),
                1 => self.elements::<u8>(target, count, before),
                2 => self.elements::<i16>(target, count, before),
                3 => self.elements::<u16>(target, count, before),
                4 => self.elements::<i32>(target, count, before),
                5 => self.elements::<u32>(target, count, before),
                6 => self.elements::<i64>(target, count, before),
                7 => self.elements::<u64>(target, count, before),
                8 => self.elements::<f32>(target, count, before),
                9 => self.elements::<f64>(target, count, before),
                10 => self.elements::<[f32; 2]>(target, count, before),
                11 => self.elements::<[f64; 2]>(target, count, before),
                14 => self.elements::<i128>(target, count, before),
                15 => self.elements::<u128>(target, count, before),
                _ => {}
            }
        }
    }

    /// # Safety
    /// As [`run`](Self::run).
    unsafe fn elements<T: Element>(&self, target: *mut u8, count: usize, before: &mut Vec<u8>) {
        let size = size_of::<T>();
        let first = before.len();
        before.resize(first + size * count, 0);
        let element = |bytes: &[u8], at: usize, old: T| match bytes.get(at..at + size) {
            // SAFETY: `size` bytes, and every pattern is a value of these types.
            Some(bytes) => unsafe { bytes.as_ptr().cast::<T>().read_unaligned() },
            None => old,
        };
        for number in 0..count {
            let at = number * size;
            let place = target.wrapping_add(at);
            // SAFETY: the caller's promise. Volatile, since other processes may read there
            // meanwhile.
            unsafe {
                let old = load::<T>(place);
                core::ptr::copy_nonoverlapping(
                    (&raw const old).cast::<u8>(),
                    before.as_mut_ptr().add(first + at),
                    size,
                );
                let operand = element(self.operand, at, old);
                let compare = element(self.compare, at, old);
                if let Some(new) = T::apply(self.op, old, operand, compare) {
                    store(place, new);
                }
            }
        }
    }
}

/// # Safety
/// As [`Reduction::run`].
unsafe fn load<T: Copy>(place: *mut u8) -> T {
    let place = place.cast::<T>();
    // SAFETY: the caller's promise.
    unsafe {
        if place.is_aligned() {
            place.read_volatile()
        } else {
            place.read_unaligned()
        }
    }
}

/// # Safety
/// As [`Reduction::run`].
unsafe fn store<T: Copy>(place: *mut u8, value: T) {
    let place = place.cast::<T>();
    // SAFETY: the caller's promise.
    unsafe {
        if place.is_aligned() {
            place.write_volatile(value);
        } else {
            place.write_unaligned(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T: Copy>(datatype: u32, op: u32, old: T, operand: T, compare: T) -> (T, T) {
        let bytes = |value: &T| {
            let start = core::ptr::from_ref(value).cast::<u8>();
            // SAFETY: the bytes of a value without padding.
            unsafe { core::slice::from_raw_parts(start, size_of::<T>()) }.to_vec()
        };
        let mut target = old;
        let reduction = Reduction {
            datatype,
            op,
            operand: &bytes(&operand),
            compare: &bytes(&compare),
        };
        assert_eq!(size_of_type(datatype), Some(size_of::<T>()));
        let mut before = Vec::new();
        // SAFETY: the target is one element.
        unsafe { reduction.run((&raw mut target).cast(), 1, &mut before) };
        // SAFETY: the bytes of one element.
        (target, unsafe {
            before.as_ptr().cast::<T>().read_unaligned()
        })
    }

    #[test]
    fn every_operation_on_numbers() {
        let on = |op, old, operand| run::<i32>(4, op, old, operand, 0).0;
        assert_eq!((on(op::MIN, 3, -4), on(op::MIN, -4, 3)), (-4, -4));
        assert_eq!((on(op::MAX, 3, -4), on(op::MAX, -4, 3)), (3, 3));
        assert_eq!(on(op::SUM, i32::MAX, 1), i32::MIN);
        assert_eq!(on(op::PROD, -3, 5), -15);
        assert_eq!((on(op::LOR, 0, 7), on(op::LAND, 0, 7)), (1, 0));
        assert_eq!((on(op::LXOR, 2, 7), on(op::LXOR, 0, 7)), (0, 1));
        assert_eq!((on(op::BOR, 5, 3), on(op::BAND, 5, 3)), (7, 1));
        assert_eq!(on(op::BXOR, 5, 3), 6);
        assert_eq!((on(op::READ, 5, 3), on(op::WRITE, 5, 3)), (5, 3));
        assert_eq!(run::<u16>(3, op::MSWAP, 0x1234, 0xabcd, 0xff00).0, 0xab34);
        assert_eq!(run::<u64>(7, op::SUM, 1, 2, 0), (3, 1));
    }

    #[test]
    fn swaps_compare_the_second_operand_with_the_old_value() {
        let swapped = |op, compare| run::<f64>(9, op, 2.0, 9.0, compare).0 == 9.0;
        for (op, with) in [
            (op::CSWAP, [false, true, false]),
            (op::CSWAP_NE, [true, false, true]),
            (op::CSWAP_LE, [true, true, false]),
            (op::CSWAP_LT, [true, false, false]),
            (op::CSWAP_GE, [false, true, true]),
            (op::CSWAP_GT, [false, false, true]),
        ] {
            assert_eq!([1.0, 2.0, 3.0].map(|compare| swapped(op, compare)), with);
        }
    }

    #[test]
    fn complex_numbers_multiply() {
        let (new, old) = run::<[f32; 2]>(10, op::PROD, [1.0, 2.0], [3.0, -1.0], [0.0; 2]);
        assert_eq!((new, old), ([5.0, 5.0], [1.0, 2.0]));
    }

    #[test]
    fn what_is_not_known_is_said_so() {
        assert!(!knows(9, op::BAND) && !knows(12, op::SUM) && !knows(4, 19));
        assert!(knows(15, op::MSWAP) && knows(11, op::CSWAP_NE) && !knows(11, op::MIN));
        assert_eq!(size_of_type(12), None);
    }
}
