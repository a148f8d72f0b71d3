//! From a function to its tests.
//!
//! On several engines the function stays as it is, and a module of the same name holds its
//! tests. On one engine the test has the function's name and holds the function.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, FnArg, ItemFn, ReturnType, Token, Type, Visibility};

/// An engine, as the tests call it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Postgres,
    MySql,
    Sqlite,
}

pub(crate) const EVERY_ENGINE: &[Engine] = &[Engine::Postgres, Engine::MySql, Engine::Sqlite];
pub(crate) const EVERY_SERVER: &[Engine] = &[Engine::Postgres, Engine::MySql];

const SHAPE: &str = "a test on a database is an `async fn name(db: &TestDb) { .. }`";

impl Engine {
    /// The name of its attribute and of its tests.
    fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::MySql => "mysql",
            Self::Sqlite => "sqlite",
        }
    }

    fn variant(self) -> Ident {
        match self {
            Self::Postgres => format_ident!("Postgres"),
            Self::MySql => format_ident!("MySql"),
            Self::Sqlite => format_ident!("Sqlite"),
        }
    }
}

/// The tests of `function` on `engines`, or compile errors.
pub(crate) fn expand(
    engines: &[Engine],
    arguments: TokenStream,
    function: TokenStream,
) -> TokenStream {
    migrated(arguments)
        .and_then(|migrated| tests_on(engines, migrated, function))
        .unwrap_or_else(Error::into_compile_error)
}

/// The tests of `function` on the engines that the arguments list, or compile errors.
pub(crate) fn expand_listed(arguments: TokenStream, function: TokenStream) -> TokenStream {
    listed(arguments)
        .and_then(|engines| tests_on(&engines, true, function))
        .unwrap_or_else(Error::into_compile_error)
}

/// Whether the database has the outbox tables: unless the arguments are `empty`.
fn migrated(arguments: TokenStream) -> syn::Result<bool> {
    if arguments.is_empty() {
        return Ok(true);
    }
    let span = arguments.span();
    match syn::parse2::<Ident>(arguments) {
        Ok(argument) if argument == "empty" => Ok(false),
        _ => Err(Error::new(
            span,
            "the only argument is `empty`: a database without the outbox tables",
        )),
    }
}

fn listed(arguments: TokenStream) -> syn::Result<Vec<Engine>> {
    let names = Punctuated::<Ident, Token![,]>::parse_terminated.parse2(arguments)?;
    let mut engines = Vec::new();
    for name in &names {
        match EVERY_ENGINE.iter().find(|engine| name == engine.name()) {
            Some(engine) if engines.contains(engine) => {
                return Err(Error::new(name.span(), "this engine is listed already"));
            }
            Some(engine) => engines.push(*engine),
            None => {
                let message = "the engines are `postgres`, `mysql` and `sqlite`";
                return Err(Error::new(name.span(), message));
            }
        }
    }
    if engines.len() < 2 {
        let message = "list several engines; for one, the attribute has its name: `#[mysql]`";
        return Err(Error::new(names.span(), message));
    }
    Ok(engines)
}

fn tests_on(engines: &[Engine], migrated: bool, function: TokenStream) -> syn::Result<TokenStream> {
    let function: ItemFn =
        syn::parse2(function).map_err(|error| Error::new(error.span(), SHAPE))?;
    check_signature(&function)?;
    Ok(match engines {
        [only] => single_test(function, *only, migrated),
        several => module_of_tests(&function, several, migrated),
    })
}

fn check_signature(function: &ItemFn) -> syn::Result<()> {
    let wrong = |span: Span, what: &str| Err(Error::new(span, format!("{SHAPE}: {what}")));
    let signature = &function.sig;
    if !matches!(function.vis, Visibility::Inherited) {
        return wrong(function.vis.span(), "it is not public");
    }
    if signature.asyncness.is_none() {
        return wrong(signature.fn_token.span(), "`async` is missing");
    }
    if !signature.generics.params.is_empty() {
        return wrong(signature.generics.span(), "it is not generic");
    }
    if let ReturnType::Type(..) = signature.output {
        return wrong(signature.output.span(), "it returns nothing");
    }
    let mut inputs = signature.inputs.iter();
    match (inputs.next(), inputs.next()) {
        (Some(FnArg::Typed(argument)), None) if is_test_db(&argument.ty) => Ok(()),
        (Some(argument), None) => wrong(argument.span(), "its argument is a `&TestDb`"),
        (None, _) => wrong(signature.ident.span(), "its argument is missing"),
        (_, Some(second)) => wrong(second.span(), "it has one argument"),
    }
}

fn is_test_db(argument: &Type) -> bool {
    let Type::Reference(reference) = argument else {
        return false;
    };
    let Type::Path(path) = &*reference.elem else {
        return false;
    };
    let last = path.path.segments.last();
    reference.mutability.is_none() && last.is_some_and(|last| last.ident == "TestDb")
}

/// A test that is called like the function and holds it.
fn single_test(mut function: ItemFn, engine: Engine, migrated: bool) -> TokenStream {
    let attributes = std::mem::take(&mut function.attrs);
    let name = std::mem::replace(&mut function.sig.ident, format_ident!("case"));
    let call = call(engine, migrated, &quote!(case));
    quote! {
        #(#attributes)*
        #[test]
        fn #name() {
            #function
            #call
        }
    }
}

/// The function, and beside it a module of the same name with a test for each engine.
fn module_of_tests(function: &ItemFn, engines: &[Engine], migrated: bool) -> TokenStream {
    let name = &function.sig.ident;
    let tests = engines.iter().map(|&engine| {
        let test = Ident::new(engine.name(), name.span());
        let call = call(engine, migrated, &quote!(super::#name));
        quote! {
            #[test]
            fn #test() {
                #call
            }
        }
    });
    quote! {
        #function
        mod #name {
            #(#tests)*
        }
    }
}

fn call(engine: Engine, migrated: bool, case: &TokenStream) -> TokenStream {
    let engine = engine.variant();
    quote! {
        ::outbox_tests::run(::outbox_tests::Engine::#engine, #migrated, |db| {
            ::std::boxed::Box::pin(#case(db))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(engines: &[Engine], arguments: &str, function: &str) -> String {
        expand(
            engines,
            arguments.parse().unwrap(),
            function.parse().unwrap(),
        )
        .to_string()
    }

    fn written(code: &str) -> String {
        code.parse::<TokenStream>().unwrap().to_string()
    }

    #[test]
    fn several_engines_get_a_module_of_the_functions_name() {
        let function = "/// Docs stay.\n async fn it_works(db: &TestDb) { db.x().await; }";
        let tests = "mod it_works {
            #[test] fn postgres() {
                ::outbox_tests::run(::outbox_tests::Engine::Postgres, true, |db| {
                    ::std::boxed::Box::pin(super::it_works(db))
                });
            }
            #[test] fn mysql() {
                ::outbox_tests::run(::outbox_tests::Engine::MySql, true, |db| {
                    ::std::boxed::Box::pin(super::it_works(db))
                });
            }
        }";
        assert_eq!(
            expanded(EVERY_SERVER, "", function),
            written(&format!("{function} {tests}"))
        );
    }

    #[test]
    fn one_engine_gets_a_test_of_the_functions_name() {
        assert_eq!(
            expanded(
                &[Engine::Sqlite],
                "empty",
                "async fn it_works(db: &TestDb) {}"
            ),
            written(
                "#[test] fn it_works() {
                    async fn case(db: &TestDb) {}
                    ::outbox_tests::run(::outbox_tests::Engine::Sqlite, false, |db| {
                        ::std::boxed::Box::pin(case(db))
                    });
                }"
            )
        );
    }

    #[test]
    fn listed_engines_get_a_test_each() {
        let function: TokenStream = "async fn it_works(db: &TestDb) {}".parse().unwrap();
        let listed =
            |engines: &str| expand_listed(engines.parse().unwrap(), function.clone()).to_string();
        let code = listed("mysql, sqlite");
        assert!(code.contains("mod it_works"), "{code}");
        assert!(code.contains("Engine :: MySql"), "{code}");
        assert!(code.contains("Engine :: Sqlite"), "{code}");
        assert!(!code.contains("Engine :: Postgres"), "{code}");
        for (engines, error) in [
            ("", "list several engines"),
            ("mysql", "list several engines"),
            ("mysql, mysql", "listed already"),
            ("mysql, oracle", "the engines are"),
        ] {
            let code = listed(engines);
            assert!(
                code.contains("compile_error") && code.contains(error),
                "{engines}: {code}"
            );
        }
    }

    #[test]
    fn a_misuse_is_named() {
        const ARGUMENT: &str = "its argument is a `&TestDb`";
        for (function, error) in [
            ("struct A;", SHAPE),
            ("fn a(db: &TestDb) {}", "`async` is missing"),
            ("pub async fn a(db: &TestDb) {}", "it is not public"),
            ("async fn a<T>(db: &TestDb) {}", "it is not generic"),
            ("async fn a(db: &TestDb) -> u8 { 1 }", "it returns nothing"),
            ("async fn a() {}", "its argument is missing"),
            ("async fn a(db: TestDb) {}", ARGUMENT),
            ("async fn a(db: &mut TestDb) {}", ARGUMENT),
            ("async fn a(&self) {}", ARGUMENT),
            (
                "async fn a(x: &TestDb, y: &TestDb) {}",
                "it has one argument",
            ),
        ] {
            let code = expanded(EVERY_ENGINE, "", function);
            assert!(
                code.contains("compile_error") && code.contains(error),
                "{function}: {code}"
            );
        }
        let code = expanded(EVERY_ENGINE, "full", "async fn a(db: &TestDb) {}");
        assert!(code.contains("the only argument is `empty`"), "{code}");
    }
}
