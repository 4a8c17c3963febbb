//! Locking without poison: what the tool host keeps behind mutexes is whole after every statement.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose data stays usable whatever panicked while it was held.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
