//! The number of partitions, for `#[outbox_event]` and `queue!` alike.

use crate::diag::Errors;
use crate::options::peel;
use crate::paths::{as_written, ends, parenthesized};
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Expr, ExprLit, ExprUnary, Lit, LitInt, UnOp};

/// Reads a number of partitions: an expression of type `Partitions`.
///
/// A literal is checked here. Any other expression is a constant that the
/// compiler checks; its error appears where the expression stands.
pub(crate) fn read(value: &Expr, errors: &mut Errors) -> Option<TokenStream> {
    let count = match peel(value) {
        Expr::Lit(ExprLit { lit, .. }) => literal(lit, errors)?,
        negative @ Expr::Unary(ExprUnary {
            op: UnOp::Neg(_),
            expr,
            ..
        }) if matches!(**expr, Expr::Lit(_)) => {
            errors.on(negative, not_a_count(&as_written(negative)));
            return None;
        }
        constant => constant.to_token_stream(),
    };
    let (first, last) = ends(peel(value));
    let count = parenthesized(count, last);
    Some(quote_spanned!(first=> __outbox::Partitions::of #count))
}

fn literal(lit: &Lit, errors: &mut Errors) -> Option<TokenStream> {
    let Lit::Int(number) = lit else {
        errors.on(lit, "`partitions` is a number: write `partitions = 4`");
        return None;
    };
    match count(number) {
        Some(count) => {
            // Without the suffix, if any: `4usize` is as good as `4`.
            let mut plain = Literal::u32_unsuffixed(count);
            plain.set_span(number.span());
            Some(plain.to_token_stream())
        }
        None => {
            errors.on(number, not_a_count(number.base10_digits()));
            None
        }
    }
}

fn count(number: &LitInt) -> Option<u32> {
    let count: u32 = number.base10_parse().ok()?;
    (count.is_power_of_two() && count <= 64).then_some(count)
}

fn not_a_count(given: &str) -> String {
    format!("a queue has 1, 2, 4, 8, 16, 32 or 64 partitions, not {given}")
}
