//! The rules of a handler. All of them are asked, so that all mistakes are
//! reported at once.

use super::parse::Input;
use super::settings::{self, Lease, Retry};
use super::signature::{Form, Signature};
use crate::diag::{Errors, did_you_mean};
use crate::{name, paths};
use syn::{Ident, LitStr, Path, Visibility};

/// The runtime's limit for batches, and ours for keys at a time.
const MOST_MESSAGES: u64 = 10_000;

/// A handler that keeps every rule.
pub(super) struct Model<'a> {
    pub(super) krate: Path,
    pub(super) vis: &'a Visibility,
    pub(super) function: &'a Ident,
    pub(super) handle: Ident,
    pub(super) transactional: bool,
    pub(super) consumer: Option<LitStr>,
    pub(super) signature: Signature<'a>,
    pub(super) batch: Option<u64>,
    pub(super) concurrency: Option<u64>,
    pub(super) retry: Option<Retry>,
    pub(super) lease: Option<Lease>,
    pub(super) timeout: Option<u64>,
    pub(super) from_earliest: bool,
}

impl<'a> Model<'a> {
    /// Asks every rule. `None` only if something was reported.
    pub(super) fn check(input: &'a Input, errors: &mut Errors) -> Option<Self> {
        let options = &input.options;
        let krate = paths::krate(options, errors);
        let transactional = mode(input, errors);
        let signature = Signature::check(input, transactional, errors);
        let concurrency = concurrency(input, transactional, signature.as_ref(), errors);
        let lease = settings::lease(options, errors);
        let timeout = settings::timeout(options, lease.as_ref(), errors);
        Some(Self {
            krate,
            vis: &input.item.vis,
            function: &input.item.sig.ident,
            handle: input.handle(errors),
            consumer: consumer(input, errors),
            batch: settings::number(options, "batch", MOST_MESSAGES, errors),
            concurrency,
            retry: settings::retry(options, errors),
            lease,
            timeout,
            from_earliest: from_earliest(input, errors),
            transactional: transactional?,
            signature: signature?,
        })
    }
}

/// Whether it is transactional.
fn mode(input: &Input, errors: &mut Errors) -> Option<bool> {
    const WRITE: &str = "write `mode = leased` (at least once, outside any transaction) or \
                         `mode = transactional` (exactly once with the database)";
    let Some(value) = input.options.value("mode") else {
        if input.options.lacks("mode") {
            errors.at(
                input.list,
                format!("`#[outbox_handler]` needs a mode: {WRITE}"),
            );
        }
        return None;
    };
    if let Some(text) = name::string(value) {
        let text = text.value();
        let meant = did_you_mean(&text, ["leased", "transactional"]).unwrap_or("leased");
        errors.on(
            value,
            format!("`mode` is a word, not a string: write `mode = {meant}`"),
        );
        return None;
    }
    match settings::word(value).as_deref() {
        Some("leased") => Some(false),
        Some("transactional") => Some(true),
        Some(other) => {
            errors.on(
                value,
                match did_you_mean(other, ["leased", "transactional"]) {
                    Some(meant) => format!("`{other}` is not a mode; did you mean `{meant}`?"),
                    None => format!("`{other}` is not a mode: {WRITE}"),
                },
            );
            None
        }
        None => {
            errors.on(value, format!("this is not a mode: {WRITE}"));
            None
        }
    }
}

fn consumer(input: &Input, errors: &mut Errors) -> Option<LitStr> {
    let value = input.options.value("consumer")?;
    let Some(literal) = name::string(value) else {
        errors.on(value, "`consumer` is a name: write `consumer = \"ledger\"`");
        return None;
    };
    name::read("a consumer", literal, errors)
}

fn from_earliest(input: &Input, errors: &mut Errors) -> bool {
    let Some(value) = input.options.value("from") else {
        return false;
    };
    if settings::word(value).as_deref() != Some("earliest") {
        errors.on(
            value,
            "`from` says where a new consumer of an old queue starts: write `from = earliest` for the \
             oldest message that is still there, or leave it out for the next one",
        );
    }
    true
}

/// Keys at a time, if the handler's kind allows it.
fn concurrency(
    input: &Input,
    transactional: Option<bool>,
    signature: Option<&Signature<'_>>,
    errors: &mut Errors,
) -> Option<u64> {
    let name = input.options.name("concurrency")?;
    if transactional == Some(true) {
        errors.on(
            name,
            "`concurrency` means nothing in transactional mode, where all messages of a batch share \
             one transaction: leave it out, or use `mode = leased`",
        );
    }
    if signature.is_some_and(|signature| signature.form != Form::Each) {
        errors.on(
            name,
            "`concurrency` means nothing for a handler of batches, which gets many messages at once: \
             leave it out, or take one message",
        );
    }
    settings::number(&input.options, "concurrency", MOST_MESSAGES, errors)
}
