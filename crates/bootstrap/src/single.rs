//! A program that no launcher started: rank 0 of 1.

use super::{Bootstrap, BootstrapError, check_blob};

/// Rank 0 of a job of one.
#[derive(Debug)]
pub struct Single {
    job_id: String,
    finalized: bool,
}

impl Single {
    /// Makes the job of one. It needs nothing and cannot fail.
    #[must_use]
    pub fn new() -> Self {
        Self {
            job_id: format!("single-{}", std::process::id()),
            finalized: false,
        }
    }

    fn check(&self, step: &'static str) -> Result<(), BootstrapError> {
        if self.finalized {
            return Err(BootstrapError::Finalized {
                launcher: "limic",
                step,
            });
        }
        Ok(())
    }
}

impl Default for Single {
    fn default() -> Self {
        Self::new()
    }
}

impl Bootstrap for Single {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn kind(&self) -> &'static str {
        "single"
    }

    fn job_id(&self) -> &str {
        &self.job_id
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, BootstrapError> {
        self.check("all_gather")?;
        check_blob(mine)?;
        Ok(vec![mine.to_vec()])
    }

    fn barrier(&mut self) -> Result<(), BootstrapError> {
        self.check("barrier")
    }

    fn abort(&mut self, code: i32, message: &str) {
        // There is nobody to tell: the caller exits, and that is the whole job.
        tracing::error!(code, message, "job aborted");
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        self.finalized = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_one_gathers_its_own_blob() {
        let mut single = Single::new();
        assert_eq!((single.rank(), single.size()), (0, 1));
        assert_eq!(single.all_gather(b"me").unwrap(), [b"me".to_vec()]);
        single.barrier().unwrap();
        single.finalize().unwrap();
        single.finalize().unwrap();
        assert!(matches!(
            single.barrier(),
            Err(BootstrapError::Finalized { .. })
        ));
    }
}
