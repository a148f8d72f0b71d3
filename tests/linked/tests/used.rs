//! So does one of which the program uses anything else.

#[test]
fn handlers_of_a_library_that_is_used_are_found() {
    assert_eq!(outbox_tests_linked::greeting(), "hello");
    assert_eq!(outbox::registry().handlers().len(), 1);
}
