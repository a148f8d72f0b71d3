//! The values that a handler made of a function may return, and what they mean.

use super::HandlerResult;
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a handler did not succeed, and what happens to the message.
///
/// `?` turns every standard error into a `HandlerError` that means a retry:
///
/// ```
/// use outbox_runtime::HandlerError;
///
/// fn parse(text: &str) -> Result<u32, HandlerError> {
///     if text.is_empty() {
///         return Err(HandlerError::reject("there is no number"));
///     }
///     Ok(text.parse()?)
/// }
/// # assert_eq!(parse("7").unwrap(), 7);
/// # assert!(parse("x").unwrap_err().to_string().contains("invalid digit"));
/// ```
///
/// It is not a standard error itself, as `anyhow::Error` is not. Otherwise it could not be made
/// from every standard error.
pub struct HandlerError(HandlerResult);

impl HandlerError {
    /// Try again after the policy's backoff.
    pub fn retry(reason: impl fmt::Display) -> Self {
        Self(HandlerResult::retry(reason))
    }

    /// Try again after `delay`.
    pub fn retry_after(delay: Duration, reason: impl fmt::Display) -> Self {
        Self(HandlerResult::retry_after(delay, reason))
    }

    /// Permanent failure: the message becomes a dead letter without another attempt.
    pub fn reject(reason: impl fmt::Display) -> Self {
        Self(HandlerResult::reject(reason))
    }
}

impl<E: Error> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // The text of many errors contains the text of their cause.
            if !reason.contains(&text) {
                reason = format!("{reason}: {text}");
            }
            source = cause.source();
        }
        Self::retry(reason)
    }
}

impl From<HandlerError> for HandlerResult {
    fn from(error: HandlerError) -> Self {
        error.0
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.reason().unwrap_or_default())
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A value that a handler made of a function may return.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not an outcome",
    note = "a handler returns nothing, `HandlerResult`, or `Result<(), E>` where `E` implements \
            `Display`, such as `HandlerError`"
)]
pub trait Outcome {
    /// What it means.
    fn into_result(self) -> HandlerResult;
}

impl Outcome for () {
    fn into_result(self) -> HandlerResult {
        HandlerResult::Success
    }
}

impl Outcome for HandlerResult {
    fn into_result(self) -> HandlerResult {
        self
    }
}

impl<E: fmt::Display + 'static> Outcome for Result<(), E> {
    fn into_result(self) -> HandlerResult {
        let Err(error) = self else {
            return HandlerResult::Success;
        };
        let mut error = Some(error);
        let own = (&mut error as &mut dyn Any).downcast_mut::<Option<HandlerError>>();
        if let Some(HandlerError(result)) = own.and_then(Option::take) {
            return result;
        }
        // The long form, because `anyhow` names the causes only there.
        let reason = error.map(|error| format!("{error:#}"));
        HandlerResult::retry(reason.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handlers_own_error_keeps_what_it_says_and_any_other_is_a_retry() {
        let second = Duration::from_secs(1);
        let own = |error| Err::<(), _>(error).into_result();
        assert_eq!(own(HandlerError::reject("no")), HandlerResult::reject("no"));
        assert_eq!(
            own(HandlerError::retry_after(second, "later")),
            HandlerResult::retry_after(second, "later")
        );
        let text = Err::<(), _>("down".to_owned()).into_result();
        assert_eq!(text, HandlerResult::retry("down"));
        let boxed = Err::<(), Box<dyn Error>>("down".into()).into_result();
        assert_eq!(boxed, HandlerResult::retry("down"));
        assert_eq!(Ok::<(), String>(()).into_result(), HandlerResult::Success);
        assert_eq!(().into_result(), HandlerResult::Success);
    }

    #[derive(Debug, thiserror::Error)]
    #[error("outside")]
    struct Outer(#[source] std::num::ParseIntError);

    #[test]
    fn the_causes_of_a_standard_error_are_told() {
        let fail = || -> Result<(), HandlerError> {
            "x".parse::<i32>().map(drop).map_err(Outer)?;
            Ok(())
        };
        let error = fail().expect_err("it fails");
        assert_eq!(error.to_string(), "outside: invalid digit found in string");
        assert!(format!("{error:?}").starts_with("Retry"), "{error:?}");
    }
}
