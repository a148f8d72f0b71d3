//! The option `key`: where an event's own key comes from.

use super::parse::Input;
use crate::diag::{Errors, did_you_mean, list};
use crate::name;
use crate::options::peel;
use syn::{Data, Expr, ExprLit, ExprPath, Fields, Index, Lit, Member};

/// Where the key comes from.
pub(super) enum Key {
    /// A field of the struct.
    Field(Member),
    /// A function of `&Self`.
    Function(ExprPath),
}

/// Reads `key`. The compiler checks that its type is a key.
pub(super) fn read(input: &Input, errors: &mut Errors) -> Option<Key> {
    let value = input.options.value("key")?;
    let member = match peel(value) {
        Expr::Path(path) => match path.path.get_ident() {
            Some(ident) if path.qself.is_none() => Member::Named(ident.clone()),
            _ => return Some(Key::Function(path.clone())),
        },
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => Member::Unnamed(Index {
            // No struct has the last index.
            index: number.base10_parse().unwrap_or(u32::MAX),
            span: number.span(),
        }),
        _ => {
            errors.on(value, explain(value));
            return None;
        }
    };
    match &input.item.data {
        Data::Struct(data) => field(input, &data.fields, member, errors),
        Data::Enum(_) => {
            errors.on(
                &member,
                format!(
                    "an enum has no field `{}`: write `key = Self::order_key`, a function of `&Self` that returns the key",
                    show(&member)
                ),
            );
            None
        }
        Data::Union(_) => None,
    }
}

fn field(input: &Input, fields: &Fields, member: Member, errors: &mut Errors) -> Option<Key> {
    if fields.members().any(|known| known == member) {
        return Some(Key::Field(member));
    }
    let known: Vec<String> = fields.members().map(|known| show(&known)).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let given = show(&member);
    let close = did_you_mean(&given, known.iter().copied());
    let advice = match close.filter(|_| matches!(member, Member::Named(_))) {
        Some(close) => format!("; did you mean `{close}`?"),
        None if known.is_empty() => {
            ": it has no fields; a function is written as a path, `key = Self::order_key`"
                .to_owned()
        }
        None => format!(
            ": it has {}; a function is written as a path, `key = Self::order_key`",
            list(&known)
        ),
    };
    let ident = &input.item.ident;
    errors.on(&member, format!("`{ident}` has no field `{given}`{advice}"));
    None
}

fn explain(value: &Expr) -> String {
    if let Some(text) = name::string(value)
        && text.parse::<ExprPath>().is_ok()
    {
        return format!(
            "`key` is a field or a path, not a string: write `key = {}`",
            text.value()
        );
    }
    "`key` is a field, `key = order_id`, or a function of `&Self` written as a path, `key = Self::order_key`".to_owned()
}

fn show(member: &Member) -> String {
    match member {
        Member::Named(ident) => ident.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}
