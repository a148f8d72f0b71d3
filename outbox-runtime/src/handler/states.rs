//! Values that an application gives to its handlers, found by type.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

/// One value of each type.
#[derive(Clone, Default)]
pub(crate) struct States(Arc<HashMap<TypeId, Box<dyn Any + Send + Sync>>>);

impl States {
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }

    pub(crate) fn has(&self, id: TypeId) -> bool {
        self.0.contains_key(&id)
    }

    /// Adds a value. Works only while this is not shared yet. Returns whether there was a value of
    /// that type.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) -> bool {
        Arc::get_mut(&mut self.0)
            .and_then(|states| states.insert(TypeId::of::<T>(), Box::new(value)))
            .is_some()
    }
}
