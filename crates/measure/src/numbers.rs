//! Medians, and how numbers are written.

/// Median and extremes of the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Half of the numbers are below.
    pub median: f64,
    /// The least of them.
    pub least: f64,
    /// The most of them.
    pub most: f64,
}

impl Spread {
    /// Of some numbers; 0 if there are none.
    pub fn of(numbers: &[f64]) -> Self {
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
        let upper = sorted.len() / 2;
        let lower = sorted.len().saturating_sub(1) / 2;
        Self {
            median: (at(lower) + at(upper)) / 2.0,
            least: at(0),
            most: at(sorted.len().saturating_sub(1)),
        }
    }

    /// In another unit; never quite 0.
    pub fn scaled(self, factor: f64) -> Self {
        // A clock that did not move must not give infinite rates.
        let scale = |number: f64| (number * factor).max(1e-6);
        Self {
            median: scale(self.median),
            least: scale(self.least),
            most: scale(self.most),
        }
    }

    /// Distance of the extremes as a fraction of the median.
    pub fn relative(&self) -> f64 {
        (self.most - self.least) / self.median
    }
}

/// Three significant digits, and all of those before the point.
pub fn significant(number: f64) -> String {
    let decimals = match number {
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        n if n >= 1.0 => 2,
        _ => 4,
    };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_odd_and_even_counts() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of(&[]).median, 0.0);
        let spread = Spread::of(&[1.0, 2.0, 4.0]);
        assert_eq!((spread.least, spread.most), (1.0, 4.0));
        assert_eq!(spread.relative(), 1.5);
        assert!(Spread::of(&[0.0]).scaled(1.0).median > 0.0);
    }

    #[test]
    fn small_and_large_times_read_well() {
        assert_eq!(significant(0.05812), "0.0581");
        assert_eq!(significant(1.234), "1.23");
        assert_eq!(significant(12.34), "12.3");
        assert_eq!(significant(1234.5), "1234");
    }
}
