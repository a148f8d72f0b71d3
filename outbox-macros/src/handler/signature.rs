//! The rules of a handler's function: what it takes, what it is.

use super::parse::Input;
use crate::diag::Errors;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute, FnArg, GenericArgument, GenericParam, PathArguments, ReturnType, Safety, Type,
    TypePath,
};

/// How messages are handed to the function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One at a time.
    Each,
    /// All of a batch, as a `Vec`.
    All,
    /// A batch to walk through.
    Batch,
}

/// An argument after the message.
pub(super) enum Arg<'a> {
    /// Made of the context.
    Extract(&'a Type),
    /// The transaction.
    Transaction,
}

/// What a function takes and returns.
pub(super) struct Signature<'a> {
    pub(super) form: Form,
    /// The event, or what is made of one by another name.
    pub(super) item: &'a Type,
    /// Whether it is `Message` of that.
    pub(super) in_message: bool,
    pub(super) args: Vec<Arg<'a>>,
    /// What it returns, in the end.
    pub(super) returns: TokenStream,
}

impl<'a> Signature<'a> {
    /// Asks every rule. `None` only if something was reported.
    pub(super) fn check(
        input: &'a Input,
        transactional: Option<bool>,
        errors: &mut Errors,
    ) -> Option<Self> {
        let sig = &input.item.sig;
        if input.is_method() {
            errors.on(
                sig.receiver(),
                "a handler is a function of its own, without `self`: move it out of the `impl`, and \
                 take what it needs as `State<T>`",
            );
            return None;
        }
        check_kind(input, errors);
        let mut types = sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(arg) => Some(&*arg.ty),
            FnArg::Receiver(_) => None,
        });
        let Some(first) = types.next() else {
            errors.at(
                sig.paren_token.span.join(),
                format!(
                    "a handler takes its message: write `async fn {}(event: OrderCreated)`, with an \
                     event of yours",
                    sig.ident
                ),
            );
            return None;
        };
        check_attributes(input, errors);
        let message = message(first, errors);
        let args = types
            .filter_map(|ty| argument(ty, transactional, errors))
            .collect();
        let (form, item) = message?;
        let event = match bare(item) {
            Type::Path(path) if last_name(path) == "Message" => inner(path),
            _ => None,
        };
        Some(Self {
            form,
            item: event.unwrap_or(item),
            in_message: event.is_some(),
            args,
            returns: match &sig.output {
                ReturnType::Default => quote!(()),
                ReturnType::Type(_, ty) => ty.to_token_stream(),
            },
        })
    }
}

/// An async function of one kind of event.
fn check_kind(input: &Input, errors: &mut Errors) {
    let sig = &input.item.sig;
    if sig.asyncness.is_none() {
        errors.at(
            sig.fn_token.span,
            format!("a handler is asynchronous: write `async fn {}`", sig.ident),
        );
    }
    if let Safety::Unsafe(token) = &sig.safety {
        errors.at(
            token.span(),
            format!(
                "a handler cannot be unsafe, the outbox calls it: write `async fn {}`",
                sig.ident
            ),
        );
    }
    for param in &sig.generics.params {
        match param {
            GenericParam::Lifetime(param) => errors.on(
                &param.lifetime,
                "a handler has no lifetime parameters: write `'_` instead, or leave it out",
            ),
            GenericParam::Type(param) => errors.on(&param.ident, NOT_GENERIC),
            GenericParam::Const(param) => errors.on(&param.ident, NOT_GENERIC),
        }
    }
    if let ReturnType::Type(_, ty) = &sig.output
        && let Type::ImplTrait(_) = &**ty
    {
        errors.on(
            ty,
            "a handler says what it returns: nothing, `HandlerResult`, or `Result<(), E>`",
        );
    }
}

/// Which arguments there are must be known here, before `cfg` is looked at.
fn check_attributes(input: &Input, errors: &mut Errors) {
    for argument in &input.item.sig.inputs {
        let attrs = match argument {
            FnArg::Typed(argument) => &argument.attrs,
            FnArg::Receiver(receiver) => &receiver.attrs,
        };
        let conditional =
            |attr: &&Attribute| attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr");
        if let Some(attr) = attrs.iter().find(conditional) {
            errors.on(
                attr,
                "the arguments of a handler cannot be conditional: write two functions, each with \
                 its `#[cfg(..)]`",
            );
        }
    }
}

const NOT_GENERIC: &str =
    "a handler cannot be generic, it handles one event: write the type instead";

/// Reads the type of the first argument.
fn message<'a>(ty: &'a Type, errors: &mut Errors) -> Option<(Form, &'a Type)> {
    match bare(ty) {
        Type::Reference(_) => {
            errors.on(
                ty,
                "the first argument of a handler is its message, by value: an event `E`, \
                 `Message<E>`, `Vec<E>` or `Batch<'_, E>`",
            );
            None
        }
        Type::ImplTrait(_) => {
            errors.on(ty, NOT_GENERIC);
            None
        }
        Type::Path(path) => Some(match (last_name(path).as_str(), inner(path)) {
            ("Vec", Some(item)) => (Form::All, item),
            ("Batch", Some(item)) => (Form::Batch, item),
            _ => (Form::Each, ty),
        }),
        _ => Some((Form::Each, ty)),
    }
}

/// Reads the type of a further argument.
fn argument<'a>(ty: &'a Type, transactional: Option<bool>, errors: &mut Errors) -> Option<Arg<'a>> {
    if let Type::ImplTrait(_) = bare(ty) {
        errors.on(ty, NOT_GENERIC);
        return None;
    }
    let is_transaction = |ty: &Type| matches!(bare(ty), Type::Path(path) if last_name(path) == "DatabaseTransaction");
    match bare(ty) {
        Type::Reference(reference) if is_transaction(&reference.elem) => {
            if transactional == Some(false) {
                errors.on(
                    ty,
                    "a leased handler has no transaction: use `mode = transactional`, or take a \
                     connection, `State<DatabaseConnection>`",
                );
            } else if let Some(mutability) = &reference.mutability {
                errors.on(
                    mutability,
                    "a transaction is shared: write `&DatabaseTransaction`",
                );
            }
            Some(Arg::Transaction)
        }
        other if is_transaction(other) => {
            errors.on(
                ty,
                "the transaction is not the handler's own: write `&DatabaseTransaction`",
            );
            None
        }
        _ => Some(Arg::Extract(ty)),
    }
}

/// A type without the parentheses around it, visible or not.
fn bare(mut ty: &Type) -> &Type {
    loop {
        ty = match ty {
            Type::Group(group) => &group.elem,
            Type::Paren(paren) => &paren.elem,
            _ => return ty,
        };
    }
}

fn last_name(path: &TypePath) -> String {
    let last = path.path.segments.last();
    last.map(|segment| segment.ident.to_string())
        .unwrap_or_default()
}

/// The one type that a path has as its argument, besides lifetimes.
fn inner(path: &TypePath) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
        return None;
    };
    let mut types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.next().filter(|_| types.next().is_none())
}
