//! The slices of a buffer in the words of the copy engines.

/// Slices up to a total; one slice, the usual case, needs no memory.
pub(crate) enum CopySlices<L> {
    One([L; 1]),
    Many(Vec<L>),
}

impl<L> CopySlices<L> {
    /// Takes `total` bytes of the slices; the last one may be cut.
    pub(crate) fn cut<S: Copy>(
        slices: &[S],
        mut total: u64,
        len_of: impl Fn(S) -> usize,
        slice: impl Fn(S, usize) -> L,
    ) -> Self {
        let mut take = |from: S| {
            let len = total.min(len_of(from) as u64);
            total -= len;
            len as usize
        };
        match slices {
            [one] => Self::One([slice(*one, take(*one))]),
            many => {
                let cut = many.iter().map(|from| (*from, take(*from)));
                let there = cut.filter(|(_, len)| *len > 0);
                Self::Many(there.map(|(from, len)| slice(from, len)).collect())
            }
        }
    }

    pub(crate) fn as_slice(&self) -> &[L] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}
