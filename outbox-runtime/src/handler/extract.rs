//! The arguments that a handler made of a function may take beside its message.

use super::{Ctx, HandlerError};
use crate::event::message::Headers;
use std::any::TypeId;

/// An argument of a handler that is made from the context of the call.
///
/// Implement it to give handlers a part of their message in the form that they need. An error ends
/// the attempt before the handler is called.
///
/// ```
/// use outbox_runtime::{Ctx, Extract, HandlerError};
///
/// struct Tenant(String);
///
/// impl Extract<'_> for Tenant {
///     fn extract(ctx: &Ctx) -> Result<Self, HandlerError> {
///         match ctx.message().headers().get("tenant") {
///             Some(tenant) => Ok(Self(tenant.to_owned())),
///             None => Err(HandlerError::reject("it has no header `tenant`")),
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler",
    label = "not something a handler can take",
    note = "after its message a handler takes `State<T>`, `&Ctx`, `Headers`, in transactional mode \
            `&DatabaseTransaction`, and types that implement `outbox::Extract`"
)]
pub trait Extract<'a>: Sized {
    /// Makes the argument.
    ///
    /// # Errors
    /// If the argument cannot be made. The error says what happens to the message.
    fn extract(ctx: &'a Ctx) -> Result<Self, HandlerError>;

    /// The states that the argument needs. `start()` reports those that are missing.
    #[must_use]
    fn requires() -> Vec<StateType> {
        Vec::new()
    }
}

/// A value of the application that was given to the builder with
/// [`state`](crate::OutboxBuilder::state). Each call of the handler gets a clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State<T>(pub T);

/// The type of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateType {
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
}

impl StateType {
    /// The type `T`.
    #[must_use]
    pub fn of<T: 'static>() -> Self {
        Self {
            id: TypeId::of::<T>(),
            name: std::any::type_name::<T>(),
        }
    }
}

impl<T: Clone + Send + Sync + 'static> Extract<'_> for State<T> {
    fn extract(ctx: &Ctx) -> Result<Self, HandlerError> {
        let missing = || {
            let name = std::any::type_name::<T>();
            HandlerError::retry(format_args!(
                "no state of type `{name}` was given to the builder"
            ))
        };
        ctx.state::<T>().cloned().map(Self).ok_or_else(missing)
    }

    fn requires() -> Vec<StateType> {
        vec![StateType::of::<T>()]
    }
}

impl<'a> Extract<'a> for &'a Ctx {
    fn extract(ctx: &'a Ctx) -> Result<Self, HandlerError> {
        Ok(ctx)
    }
}

impl Extract<'_> for Headers {
    fn extract(ctx: &Ctx) -> Result<Self, HandlerError> {
        Ok(ctx.message().headers().clone())
    }
}
