//! How to use the outbox, one question at a time.
//!
//! | question | guide |
//! |---|---|
//! | Leased or transactional? One message or a batch? | [`modes`] |
//! | What is a key, and what is in order? | [`keys`] |
//! | What happens to a message that fails? | [`failures`] |
//! | What if a message comes twice? | [`idempotence`] |
//! | Where are the tables? Several processes, new versions, proxies, grants, pools? | [`deploying`] |
//! | What do I watch, and what do I do when something is stuck? | [`operating`] |
//! | How do I test my handlers? | [`testing`] |
//! | What is in the tables? | [`schema`] |
//!
//! In a hurry: the program in the [crate's documentation](crate), then [`modes`] and
//! [`testing`].

#[doc = include_str!("deploying.md")]
pub mod deploying {}
#[doc = include_str!("failures.md")]
pub mod failures {}
#[doc = include_str!("idempotence.md")]
pub mod idempotence {}
#[doc = include_str!("keys.md")]
pub mod keys {}
#[doc = include_str!("modes.md")]
pub mod modes {}
#[doc = include_str!("operating.md")]
pub mod operating {}
#[doc = include_str!("schema.md")]
pub mod schema {}
#[doc = include_str!("testing.md")]
pub mod testing {}
