//! The values of a handler's options: numbers, durations, names.

use crate::diag::Errors;
use crate::name;
use crate::options::{Options, Spec, peel};
use syn::{Expr, ExprLit, Lit};

/// A year, in milliseconds; a longer duration is a mistake.
const LONGEST_MILLIS: u64 = 365 * 24 * 3600 * 1000;
/// A day: the runtime's limit for leases.
const LONGEST_LEASE_MILLIS: u64 = 24 * 3600 * 1000;

/// The runtime's defaults, which options are compared with.
const DEFAULT_LEASE: u64 = 30_000;
const DEFAULT_HEADROOM: u64 = 2_000;
const DEFAULT_ATTEMPTS: u64 = 10;
const DEFAULT_BASE: u64 = 1_000;
const DEFAULT_MAX: u64 = 300_000;

static RETRY: Spec = Spec {
    host: "`retry(..)`",
    options: &["base", "max", "jitter"],
    lists: &[],
    words: &[],
    example: "base = \"1s\"",
};

/// Attempts and the pauses between them, in milliseconds.
pub(super) struct Retry {
    pub(super) attempts: u64,
    pub(super) base: u64,
    pub(super) max: u64,
    pub(super) jitter: bool,
}

/// A lease and its headroom, in milliseconds.
pub(super) struct Lease {
    pub(super) duration: u64,
    pub(super) headroom: u64,
}

/// `retry(..)` and `max_attempts`; `None` if neither is given.
pub(super) fn retry(options: &Options, errors: &mut Errors) -> Option<Retry> {
    let attempts = number(
        options,
        "max_attempts",
        i32::MAX.unsigned_abs().into(),
        errors,
    );
    let list = options.list("retry");
    if attempts.is_none() && list.is_none() {
        return None;
    }
    let mut inner = Options::new(&RETRY);
    if let Some(list) = list {
        inner.read(list.clone(), errors);
    }
    let base = duration(&inner, "base", LONGEST_MILLIS, errors);
    let max = duration(&inner, "max", LONGEST_MILLIS, errors);
    let (shown_base, shown_max) = (base.unwrap_or(DEFAULT_BASE), max.unwrap_or(DEFAULT_MAX));
    if shown_base > shown_max {
        let place = inner.name("base").or(inner.name("max"));
        errors.on(
            place,
            format!(
                "`base` is the first pause and `max` the longest: {} is above {}; lower `base` or raise \
                 `max`",
                in_words(shown_base),
                in_words(shown_max)
            ),
        );
    }
    Some(Retry {
        attempts: attempts.unwrap_or(DEFAULT_ATTEMPTS),
        base: shown_base,
        max: shown_max,
        jitter: truth(&inner, "jitter", errors).unwrap_or(true),
    })
}

/// `lease` and `headroom`; `None` if neither is given. If only a short lease is given,
/// the headroom is a quarter of it.
pub(super) fn lease(options: &Options, errors: &mut Errors) -> Option<Lease> {
    let given = duration(options, "lease", LONGEST_LEASE_MILLIS, errors);
    let headroom = duration(options, "headroom", LONGEST_LEASE_MILLIS, errors);
    if given.is_none() && headroom.is_none() {
        return None;
    }
    let duration = given.unwrap_or(DEFAULT_LEASE);
    let headroom = headroom.unwrap_or_else(|| DEFAULT_HEADROOM.min((duration / 4).max(1)));
    if headroom >= duration {
        errors.on(
            options.name("headroom").or(options.name("lease")),
            format!(
                "`headroom` ({}) must be less than `lease` ({}): the handler is asked to finish that \
                 long before its lease ends",
                in_words(headroom),
                in_words(duration)
            ),
        );
    }
    Some(Lease { duration, headroom })
}

/// `timeout`, in milliseconds: it must come before the end of the lease.
pub(super) fn timeout(
    options: &Options,
    lease: Option<&Lease>,
    errors: &mut Errors,
) -> Option<u64> {
    let timeout = duration(options, "timeout", LONGEST_MILLIS, errors)?;
    let (duration, headroom) = lease.map_or((DEFAULT_LEASE, DEFAULT_HEADROOM), |lease| {
        (lease.duration, lease.headroom)
    });
    let longest = duration.saturating_sub(headroom);
    if timeout > longest {
        errors.on(
            options.name("timeout"),
            format!(
                "`timeout` ({}) comes too late: the handler is asked to finish after {} (`lease` less \
                 `headroom`); make `lease` longer",
                in_words(timeout),
                in_words(longest)
            ),
        );
    }
    Some(timeout)
}

/// A whole number from 1 to `most`.
pub(super) fn number(
    options: &Options,
    option: &str,
    most: u64,
    errors: &mut Errors,
) -> Option<u64> {
    let value = options.value(option)?;
    let range = || format!("`{option}` is a whole number from 1 to {most}: write `{option} = 10`");
    match peel(value) {
        Expr::Lit(ExprLit {
            lit: Lit::Int(literal),
            ..
        }) => match literal.base10_parse::<u64>() {
            Ok(number) if (1..=most).contains(&number) => return Some(number),
            _ => errors.on(
                literal,
                format!("{}, not {}", range(), literal.base10_digits()),
            ),
        },
        other => errors.on(other, range()),
    }
    None
}

/// A duration in milliseconds, more than zero.
fn duration(options: &Options, option: &str, most: u64, errors: &mut Errors) -> Option<u64> {
    let value = options.value(option)?;
    let Some(literal) = name::string(value) else {
        let seconds = match peel(value) {
            Expr::Lit(ExprLit {
                lit: Lit::Int(number),
                ..
            }) => number.base10_digits().to_owned(),
            _ => "30".to_owned(),
        };
        errors.on(
            value,
            format!("`{option}` is a duration: write `{option} = \"{seconds}s\"`"),
        );
        return None;
    };
    let text = literal.value();
    match millis(&text) {
        None => errors.on(
            literal,
            format!(
                "`{}` is not a duration: write a whole number and `ms`, `s`, `m` or `h`, such as \
                 \"250ms\", \"30s\" or \"5m\"",
                text.escape_debug()
            ),
        ),
        Some(0) => errors.on(
            literal,
            format!("`{option}` cannot be zero: leave it out, or write a duration such as \"30s\""),
        ),
        Some(millis) if millis > most => errors.on(
            literal,
            format!("`{option}` is at most {}, and this is more", in_words(most)),
        ),
        Some(millis) => return Some(millis),
    }
    None
}

/// Reads "250ms", "30s", "5m" or "1h".
fn millis(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    // A number with too many digits is above every limit.
    let number: u64 = number.parse().ok().or((digits > 0).then_some(u64::MAX))?;
    Some(number.saturating_mul(factor))
}

/// A duration as a user would write it.
fn in_words(millis: u64) -> String {
    for (factor, unit) in [(3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
        if millis >= factor && millis.is_multiple_of(factor) {
            return format!("{}{unit}", millis / factor);
        }
    }
    format!("{millis}ms")
}

fn truth(options: &Options, option: &str, errors: &mut Errors) -> Option<bool> {
    let value = options.value(option)?;
    if let Expr::Lit(ExprLit {
        lit: Lit::Bool(literal),
        ..
    }) = peel(value)
    {
        return Some(literal.value);
    }
    errors.on(value, format!("`{option}` is `true` or `false`"));
    None
}

/// The word that an option's value is: `leased` in `mode = leased`.
pub(super) fn word(value: &Expr) -> Option<String> {
    match peel(value) {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_numbers_with_a_unit() {
        for (text, expected) in [
            ("250ms", Some(250)),
            ("30s", Some(30_000)),
            ("5m", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("0s", Some(0)),
            ("99999999999999999999s", Some(u64::MAX)),
            ("", None),
            ("s", None),
            ("30", None),
            ("30 s", None),
            ("1.5s", None),
            ("-1s", None),
            ("5min", None),
            ("1m30s", None),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
    }

    #[test]
    fn durations_are_told_in_their_largest_unit() {
        for text in ["250ms", "30s", "90s", "5m", "1h", "1500ms"] {
            let millis = millis(text).expect(text);
            assert_eq!(in_words(millis), text);
        }
    }

    /// The same rule, written in another way.
    fn expected(text: &str) -> Option<u64> {
        let unit = text.find(|c: char| !c.is_ascii_digit())?;
        let factor = match &text[unit..] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60 * 1_000,
            "h" => 60 * 60 * 1_000,
            _ => return None,
        };
        let number = text[..unit].chars().fold(None::<u64>, |sum, digit| {
            let digit = u64::from(digit.to_digit(10).unwrap_or(0));
            Some(sum.unwrap_or(0).saturating_mul(10).saturating_add(digit))
        });
        number.map(|number| number.saturating_mul(factor))
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_duration_or_none(text in "\\PC{0,24}|[0-9]{0,22}(ms|s|m|h|d| |us)?") {
            proptest::prop_assert_eq!(millis(&text), expected(&text));
        }

        #[test]
        fn a_duration_in_words_is_that_duration(number: u64) {
            proptest::prop_assert_eq!(millis(&in_words(number)), Some(number));
        }
    }
}
