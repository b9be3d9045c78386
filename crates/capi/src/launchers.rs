//! The launchers of this process's worlds, for an abort that waits for nobody.

use limic::Launcher;
use limic_shm::process::LockHere;

use crate::handles::limic_endpoint;

/// By the numbers of the worlds. They are few.
static OF_WORLDS: LockHere<Vec<(u64, Launcher)>> = LockHere::new(Vec::new());

pub(crate) fn insert(world: limic_endpoint, launcher: Launcher) {
    OF_WORLDS.lock().push((world.id, launcher));
}

/// The launcher of an endpoint, if that is a world.
pub(crate) fn find(endpoint: limic_endpoint) -> Option<Launcher> {
    let all = OF_WORLDS.lock();
    let found = all.iter().find(|(id, _)| *id == endpoint.id);
    found.map(|(_, launcher)| launcher.clone())
}

/// The endpoint is closed.
pub(crate) fn remove(endpoint: limic_endpoint) {
    OF_WORLDS.lock().retain(|(id, _)| *id != endpoint.id);
}
