//! How generated code names things: the path of the outbox crate, and spans
//! that put an error at the user's token.

use crate::diag::Errors;
use crate::name;
use crate::options::{Options, peel};
use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::ToTokens;
use syn::{Expr, Path, parse_quote};

/// The path of the crate: `::outbox`, or what `crate = ..` says.
///
/// Generated code imports its `__private` once as `__outbox` and names
/// everything through that, so that a wrong path is one error.
pub(crate) fn krate(options: &Options, errors: &mut Errors) -> Path {
    let default = || parse_quote!(::outbox);
    let Some(value) = options.value("crate") else {
        return default();
    };
    if let Expr::Path(path) = peel(value)
        && path.qself.is_none()
    {
        return path.path.clone();
    }
    let text = name::string(value).and_then(|text| text.parse::<Path>().ok());
    match &text {
        Some(path) => {
            let path = as_written(path);
            errors.on(
                value,
                format!("`crate` is a path, not a string: write `crate = {path}`"),
            );
        }
        None => errors.on(
            value,
            "`crate` is the path of the outbox crate: write `crate = my_outbox`",
        ),
    }
    // The path that the user probably meant is good enough for the stub.
    text.unwrap_or_else(default)
}

/// The place of a user's token, for generated tokens that see the names of generated code.
pub(crate) fn located_at(span: Span) -> Span {
    Span::call_site().located_at(span)
}

/// The places of the first and the last of a user's tokens. A generated call has its
/// path at the first place and its parentheses at the last. Then the compiler underlines
/// all of the tokens: stable Rust has no other way to say "from here to there".
pub(crate) fn ends(tokens: impl ToTokens) -> (Span, Span) {
    let mut tokens = tokens.into_token_stream().into_iter();
    let first = tokens
        .next()
        .map_or_else(Span::call_site, |token| token.span());
    let last = tokens.last().map_or(first, |token| token.span());
    (located_at(first), located_at(last))
}

/// `(tokens)`, with the parentheses at `span`.
pub(crate) fn parenthesized(tokens: TokenStream, span: Span) -> Group {
    let mut group = Group::new(Delimiter::Parenthesis, tokens);
    group.set_span(span);
    group
}

/// A path or a number as a user writes it, without the spaces between its tokens.
pub(crate) fn as_written(tokens: impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace(' ', "")
}
