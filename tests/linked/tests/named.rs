//! A library that the program names, if only so, brings its handlers along.

use outbox_tests_linked as _;

#[test]
fn handlers_of_a_named_library_are_found() {
    let registry = outbox::registry();
    let names: Vec<_> = registry
        .handlers()
        .iter()
        .map(|handler| handler.name)
        .collect();
    assert_eq!(names, ["outbox_tests_linked::shipping::ship"]);
    assert_eq!(registry.events().len(), 1);
}
