#![doc = include_str!("../README.md")]

mod arguments;
mod error;
mod message;
mod results;
mod store;
mod words;

pub use arguments::*;
pub use error::{Detail, Error};
pub use message::Message;
pub use results::*;
pub use store::{rewrite, verify, Messages, Store, Union};
pub use words::*;

/// The result of every call.
pub type Result<T> = std::result::Result<T, Error>;
