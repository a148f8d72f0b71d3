//! A dependency that the program never names is not linked, and its handlers are not
//! found: if this fails, the remedy in the documentation is no longer needed.

#[test]
fn handlers_of_a_library_that_is_never_named_are_not_found() {
    assert_eq!(outbox::registry().handlers().len(), 0);
    assert_eq!(outbox::registry().events().len(), 0);
}
