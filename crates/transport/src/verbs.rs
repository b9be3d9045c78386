//! Whether peers on other nodes can be reached from here.

/// Why verbs are off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsOff {
    /// This build of limic has no verbs.
    #[error("this build has no verbs (feature ibverbs)")]
    NotBuilt,
    /// The machine has no usable device.
    #[error("{0}")]
    NoDevice(String),
}

/// Names of the devices with an active port, or why there is none.
///
/// # Errors
/// [`VerbsOff`].
#[cfg(feature = "ibverbs")]
pub fn devices() -> Result<Vec<String>, VerbsOff> {
    use limic_ibverbs::objects::{Context, devices};
    let text = |error: limic_ibverbs::VerbsError| VerbsOff::NoDevice(error.to_string());
    let mut usable = Vec::new();
    let mut why = Vec::new();
    for device in devices().map_err(text)? {
        match Context::open(&device).and_then(|context| context.first_port()) {
            Ok(_) => usable.push(device.name),
            Err(error) => why.push(format!("{}: {error}", device.name)),
        }
    }
    if usable.is_empty() {
        return Err(VerbsOff::NoDevice(why.join("; ")));
    }
    Ok(usable)
}

/// Names of the devices with an active port, or why there is none.
///
/// # Errors
/// [`VerbsOff`].
#[cfg(not(feature = "ibverbs"))]
pub fn devices() -> Result<Vec<String>, VerbsOff> {
    Err(VerbsOff::NotBuilt)
}
