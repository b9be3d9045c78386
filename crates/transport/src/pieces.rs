//! The pieces of a buffer in the words of the copy engines.

/// Pieces up to a total; one piece, the usual case, needs no memory.
pub(crate) enum Pieces<L> {
    One([L; 1]),
    Many(Vec<L>),
}

impl<L> Pieces<L> {
    /// Takes `total` bytes of the pieces; the last one may be cut.
    pub(crate) fn cut<S: Copy>(
        pieces: &[S],
        mut total: u64,
        len_of: impl Fn(S) -> usize,
        piece: impl Fn(S, usize) -> L,
    ) -> Self {
        let mut take = |from: S| {
            let len = total.min(len_of(from) as u64);
            total -= len;
            len as usize
        };
        match pieces {
            [one] => Self::One([piece(*one, take(*one))]),
            many => {
                let cut = many.iter().map(|from| (*from, take(*from)));
                let there = cut.filter(|(_, len)| *len > 0);
                Self::Many(there.map(|(from, len)| piece(from, len)).collect())
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
