//! The shared state of one stack's blocks.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared state by type: addresses, neighbours, sockets. Blocks look it up when they are built,
/// never per packet, and keep the `Arc`.
///
/// Its contents are read by many and written by one: a type must offer reads that do not lock
/// (design/0000 §4.4). Clones share the contents.
#[derive(Clone, Default)]
pub struct Env {
    entries: Arc<Mutex<Entries>>,
}

type Entries = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

impl Env {
    /// An empty environment.
    pub fn new() -> Env {
        Env::default()
    }

    /// Provides the `T` of this stack, in place of an earlier one.
    pub fn provide<T: Any + Send + Sync>(&self, value: Arc<T>) {
        self.lock().insert(TypeId::of::<T>(), value);
    }

    /// The `T` of this stack, if one was provided.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let found = self.lock().get(&TypeId::of::<T>()).cloned();
        found.and_then(|any| any.downcast::<T>().ok())
    }

    /// The `T` of this stack, made on first use.
    pub fn get_or_default<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let made = |slot: &mut Entries| -> Arc<dyn Any + Send + Sync> {
            let entry = slot.entry(TypeId::of::<T>());
            Arc::clone(
                entry.or_insert_with(|| Arc::new(T::default()) as Arc<dyn Any + Send + Sync>),
            )
        };
        let any = made(&mut self.lock());
        any.downcast::<T>().expect("the key is the type")
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Env({} entries)", self.lock().len())
    }
}
