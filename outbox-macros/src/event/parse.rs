//! Reading an event: the item and the list of options, from either macro.
//!
//! Knows where things stand, not whether they make sense.

use crate::diag::{self, Errors};
use crate::options::{Options, Spec};
use proc_macro2::{Span, TokenStream};
use syn::{Attribute, Data, DeriveInput, Meta};

/// An event as it is written.
pub(crate) struct Input {
    pub(crate) item: DeriveInput,
    pub(crate) options: Options,
    /// How messages call the macro: "`#[outbox_event]`".
    pub(crate) host: &'static str,
    /// The place of the list of options, for what is missing in it.
    pub(crate) list: Span,
}

const OPTIONS: &[&str] = &[
    "queue",
    "partitions",
    "name",
    "aliases",
    "key",
    "max_payload",
    "crate",
];

static ATTRIBUTE: Spec = Spec {
    host: "`#[outbox_event]`",
    options: OPTIONS,
    lists: &[],
    words: &[],
    example: "queue = \"orders\"",
};

static DERIVE: Spec = Spec {
    host: "`#[outbox]`",
    options: OPTIONS,
    lists: &[],
    words: &[],
    example: "queue = \"orders\"",
};

/// `#[outbox_event(args)] item`. `None` if `item` is not a type.
pub(super) fn attribute(
    args: TokenStream,
    item: TokenStream,
    errors: &mut Errors,
) -> Option<Input> {
    let item = diag::item(
        item,
        "`#[outbox_event]` goes on a struct or an enum, and this is neither",
        errors,
    )?;
    let mut options = Options::new(&ATTRIBUTE);
    options.read(args, errors);
    Some(Input {
        item,
        options,
        host: ATTRIBUTE.host,
        list: Span::call_site(),
    })
}

/// `#[derive(OutboxEvent)] #[outbox(..)] item`. Several `#[outbox]` are one list.
pub(super) fn derive(item: TokenStream, errors: &mut Errors) -> Option<Input> {
    let item: DeriveInput = syn::parse2(item).map_err(|error| errors.push(error)).ok()?;
    let mut options = Options::new(&DERIVE);
    let mut list = None;
    for attr in item.attrs.iter().filter(|attr| is_outbox(attr)) {
        list.get_or_insert_with(|| attr.path().segments[0].ident.span());
        match &attr.meta {
            Meta::List(list) => options.read(list.tokens.clone(), errors),
            Meta::Path(_) => {}
            Meta::NameValue(_) => {
                options.give_up();
                errors.on(
                    attr,
                    "`#[outbox]` takes a list: write `#[outbox(queue = \"orders\", partitions = 4)]`",
                );
            }
        }
    }
    if list.is_none() {
        options.give_up();
        errors.at(
            Span::call_site(),
            "`#[derive(OutboxEvent)]` needs `#[outbox(queue = \"orders\", partitions = 4)]` below it",
        );
    }
    refuse_inner_attributes(&item.data, errors);
    Some(Input {
        item,
        options,
        host: DERIVE.host,
        list: list.unwrap_or_else(Span::call_site),
    })
}

fn is_outbox(attr: &Attribute) -> bool {
    attr.path().is_ident("outbox")
}

/// rustc lets a derive's attribute stand on fields and variants too, where it
/// would mean nothing.
fn refuse_inner_attributes(data: &Data, errors: &mut Errors) {
    let mut refuse = |attrs: &[Attribute], place| {
        for attr in attrs.iter().filter(|attr| is_outbox(attr)) {
            errors.on(
                attr,
                format!("`#[outbox]` goes on the type, not on {place}; a key is named there: `key = order_id`"),
            );
        }
    };
    match data {
        Data::Struct(data) => {
            for field in &data.fields {
                refuse(&field.attrs, "a field");
            }
        }
        Data::Enum(data) => {
            for variant in &data.variants {
                refuse(&variant.attrs, "a variant");
                for field in &variant.fields {
                    refuse(&field.attrs, "a field");
                }
            }
        }
        Data::Union(_) => {}
    }
}
