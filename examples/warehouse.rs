//! A service outside the database: a warehouse that is closed at times.

use crate::prove;
use std::sync::{Arc, Mutex};

/// A warehouse that remembers what it shipped. It is closed the first two times that it
/// is asked for order 2.
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
        let attempt = attempts + 1;
        if self.hangs {
            let what = format!("process {} ships order {order_id}", std::process::id());
            prove("working", what, "it holds the lease, and hangs");
            std::future::pending::<()>().await;
        }
        if order_id == 2 && attempts < 2 {
            let what = format!("order 2, attempt {attempt}: closed");
            prove("failed", what, "an error is a retry, after a pause");
            return Err(std::io::Error::other("the warehouse is closed"));
        }
        match attempt {
            1 => prove(
                "shipped",
                format!("order {order_id}"),
                "committed means delivered",
            ),
            _ => {
                let what = format!("order {order_id}, attempt {attempt}");
                prove("shipped", what, "a failure is not the end");
            }
        }
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
