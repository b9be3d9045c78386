//! What can be said about copies.

use core::str::FromStr;

use limic_policy::named;
use limic_policy::named::find;
use limic_shm::ring::instructions::LongCopy;

named! {
    /// Instructions for copies of 8 KiB and more.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    #[non_exhaustive]
    pub enum CopyInstructions {
        /// Those that are known to be faster between cores of this processor.
        #[default]
        Auto = "auto",
        /// Loads and stores of the widest registers that are worth it.
        Vector = "vector",
        /// One instruction for a whole copy, where the architecture has it.
        RepMovsb = "rep-movsb",
    }
}

impl CopyInstructions {
    /// What is asked for, if anything.
    #[doc(hidden)]
    #[must_use]
    pub const fn wanted(self) -> Option<LongCopy> {
        match self {
            Self::Auto => None,
            Self::Vector => Some(LongCopy::Vector),
            Self::RepMovsb => Some(LongCopy::RepMovsb),
        }
    }
}

impl FromStr for CopyInstructions {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        find(&Self::ALL, Self::name, text).ok_or(())
    }
}
