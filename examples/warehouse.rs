//! The world outside: a warehouse that is closed at times.

use crate::say;
use std::sync::{Arc, Mutex};

/// A warehouse that remembers what it shipped. It is closed the first two times somebody
/// asks for order 2.
#[derive(Clone, Default)]
pub struct Warehouse {
    shipped: Arc<Mutex<Vec<i64>>>,
    hangs: bool,
}

impl Warehouse {
    /// One that never answers.
    #[must_use]
    pub fn that_hangs() -> Self {
        Self {
            hangs: true,
            ..Self::default()
        }
    }

    /// Ships an order; shipping it again changes nothing.
    ///
    /// # Errors
    /// If it is closed.
    pub async fn ship(&self, order_id: i64, attempts: u32) -> std::io::Result<()> {
        if self.hangs {
            let process = std::process::id();
            say(
                "working",
                format!("process {process} is shipping order {order_id} ..."),
            );
            std::future::pending::<()>().await;
        }
        if order_id == 2 && attempts < 2 {
            say(
                "failed",
                "order 2: the warehouse is closed; it will be tried again",
            );
            return Err(std::io::Error::other("the warehouse is closed"));
        }
        say("shipped", format!("order {order_id}"));
        let mut shipped = self.lock();
        if !shipped.contains(&order_id) {
            shipped.push(order_id);
            shipped.sort_unstable();
        }
        Ok(())
    }

    /// The orders it shipped, by number.
    #[must_use]
    pub fn shipped(&self) -> Vec<i64> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<i64>> {
        self.shipped
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
