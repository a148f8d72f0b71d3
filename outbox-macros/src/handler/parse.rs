//! Reading a handler: the function and the list of options.

use crate::diag::{self, Errors};
use crate::options::{Options, Spec, peel};
use proc_macro2::{Span, TokenStream};
use syn::{Expr, Ident, ItemFn};

/// A handler as it is written.
pub(crate) struct Input {
    pub(crate) item: ItemFn,
    pub(crate) options: Options,
    /// The place of the list of options, for what is missing in it.
    pub(crate) list: Span,
}

static SPEC: Spec = Spec {
    host: "`#[outbox_handler]`",
    options: &[
        "mode",
        "consumer",
        "from",
        "batch",
        "concurrency",
        "max_attempts",
        "retry",
        "lease",
        "headroom",
        "timeout",
        "handle",
        "crate",
    ],
    lists: &[("retry", "base = \"1s\", max = \"5m\"")],
    words: &[("leased", "mode"), ("transactional", "mode")],
    example: "mode = leased",
};

/// `#[outbox_handler(args)] item`. `None` if `item` is not a function.
pub(super) fn attribute(
    args: TokenStream,
    item: TokenStream,
    errors: &mut Errors,
) -> Option<Input> {
    let item = diag::item(
        item,
        "`#[outbox_handler]` goes on an `async fn`, and this is none",
        errors,
    )?;
    let mut options = Options::new(&SPEC);
    options.read(args, errors);
    Some(Input {
        item,
        options,
        list: Span::call_site(),
    })
}

impl Input {
    /// The name of the type beside the function.
    pub(crate) fn handle(&self, errors: &mut Errors) -> Ident {
        let function = &self.item.sig.ident;
        let Some(value) = self.options.value("handle") else {
            return function.clone();
        };
        if let Expr::Path(path) = peel(value)
            && let Some(ident) = path.path.get_ident()
        {
            return ident.clone();
        }
        errors.on(
            value,
            "`handle` names the type that stands for the handler: write `handle = ShipHandler`",
        );
        function.clone()
    }

    /// Whether it is a method: no items may stand beside it.
    pub(crate) fn is_method(&self) -> bool {
        self.item.sig.receiver().is_some()
    }
}
