//! `queue!`: a queue declared once, as a type.

use crate::diag::Errors;
use crate::options::{Options, Spec};
use crate::{fallback, name, partitions, paths};
use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Expr, Ident, LitStr, Token, Visibility};

static SPEC: Spec = Spec {
    host: "`queue!`",
    options: &["partitions", "crate"],
    lists: &[],
    words: &[],
    example: "partitions = 4",
};

const FORM: &str = "write `outbox::queue!(pub Orders = \"orders\", partitions = 4)`";

/// A declaration as it is written.
struct Declaration {
    attrs: Vec<Attribute>,
    vis: Visibility,
    ident: Ident,
    /// `None` if it cannot be read; that has been reported.
    name: Option<Expr>,
    options: Options,
}

/// The type and its queue.
pub(crate) fn declare(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let parse = |input: ParseStream<'_>| parse(input, &mut errors);
    match parse.parse2(input) {
        Ok(declaration) => expand(&declaration, errors),
        Err(error) => {
            errors.push(error);
            quote!(#errors)
        }
    }
}

fn parse(input: ParseStream<'_>, errors: &mut Errors) -> syn::Result<Declaration> {
    let attrs = input.call(Attribute::parse_outer)?;
    let vis = input.parse()?;
    let ident = input.parse().map_err(|error| {
        syn::Error::new(error.span(), format!("expected a type's name: {FORM}"))
    })?;
    let mut declaration = Declaration {
        attrs,
        vis,
        ident,
        name: None,
        options: Options::new(&SPEC),
    };
    if input.parse::<Token![=]>().is_ok() {
        declaration.name = Some(input.parse()?);
    } else {
        let ident = &declaration.ident;
        errors.on(
            ident,
            format!("`{ident}` needs the name of its queue: {FORM}"),
        );
    }
    if !input.is_empty() {
        input.parse::<Token![,]>()?;
    }
    declaration.options.parse(input, errors);
    Ok(declaration)
}

fn expand(declaration: &Declaration, mut errors: Errors) -> TokenStream {
    let Declaration {
        attrs, vis, ident, ..
    } = declaration;
    let krate = paths::krate(&declaration.options, &mut errors);
    let name = name(declaration, &mut errors);
    let partitions = partitions(declaration, &mut errors);
    let queue = match (&name, partitions) {
        (Some(name), Some(partitions)) if errors.is_empty() => {
            quote!(__outbox::Queue::of(#name, #partitions))
        }
        _ => fallback::queue(),
    };
    let documented = attrs.iter().any(|attr| attr.path().is_ident("doc"));
    let docs = (!documented).then(|| {
        let name = name.map(|name| format!(" `{}`", name.value()));
        let docs = format!("The queue{}.", name.unwrap_or_default());
        quote!(#[doc = #docs])
    });
    quote! {
        #errors
        #docs
        #(#attrs)*
        #vis enum #ident {}

        const _: () = {
            use #krate::__private as __outbox;

            #[automatically_derived]
            impl __outbox::QueueType for #ident {
                const QUEUE: __outbox::Queue = #queue;
            }

            // A bad constant then fails here, not where the queue is used.
            const _: __outbox::Queue = <#ident as __outbox::QueueType>::QUEUE;
        };
    }
}

fn name(declaration: &Declaration, errors: &mut Errors) -> Option<LitStr> {
    let value = declaration.name.as_ref()?;
    let Some(literal) = name::string(value) else {
        errors.on(value, format!("the name of a queue is a string: {FORM}"));
        return None;
    };
    name::read("a queue", literal, errors)
}

fn partitions(declaration: &Declaration, errors: &mut Errors) -> Option<TokenStream> {
    let options = &declaration.options;
    if options.lacks("partitions") {
        let place = &declaration.ident;
        errors.on(
            place,
            format!("`{place}` needs its number of partitions: {FORM}"),
        );
    }
    partitions::read(options.value("partitions")?, errors)
}
