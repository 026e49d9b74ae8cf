use std::fmt;

/// What a failure says: a sentence, the field that it is about (`"messages[3].args"`), and
/// the byte of the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    pub text: String,
    pub path: Option<String>,
    pub offset: Option<u64>,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $code:literal,)*) => {
        /// A call failed, and the store is as before; an answer may have kept its messages.
        /// The variants are the codes of the C library.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* $name(Detail),)*
            /// A value could not be written as JSON, or a result not be read as the type
            /// that was asked for.
            Json(serde_json::Error),
        }

        impl Error {
            /// The name of the code, such as `"E_CONFLICT"`; `"JSON"` for [`Error::Json`].
            pub fn code(&self) -> &str {
                match self {
                    $(Error::$name(_) => $code,)*
                    Error::Json(_) => "JSON",
                }
            }

            /// The sentence, the field and the byte; `None` for [`Error::Json`].
            pub fn detail(&self) -> Option<&Detail> {
                match self {
                    $(Error::$name(detail) => Some(detail),)*
                    Error::Json(_) => None,
                }
            }

            pub(crate) fn of(code: &str, detail: Detail) -> Error {
                match code {
                    $($code => Error::$name(detail),)*
                    _ => Error::Unknown(Detail { text: format!("{code}: {}", detail.text), ..detail }),
                }
            }
        }
    };
}

codes! {
    /// An argument is not valid.
    Argument "E_ARGUMENT",
    Closed "E_CLOSED",
    NoMemory "E_NO_MEMORY",
    Arena "E_ARENA",
    /// The disk or the buffer is full; nothing was appended.
    Full "E_FULL",
    TooLarge "E_TOO_LARGE",
    NotFound "E_NOT_FOUND",
    /// Another append was first, or a rewrite has replaced the file.
    Conflict "E_CONFLICT",
    KeyReused "E_KEY_REUSED",
    Syntax "E_SYNTAX",
    Utf8 "E_UTF8",
    Depth "E_DEPTH",
    Kind "E_KIND",
    Range "E_RANGE",
    Missing "E_MISSING",
    Type "E_TYPE",
    /// Stored bytes are damaged.
    Damaged "E_DAMAGED",
    /// Written by another program or a newer version.
    Foreign "E_FOREIGN",
    Unsupported "E_UNSUPPORTED",
    Io "E_IO",
    /// Another process is writing.
    Busy "E_BUSY",
    ReadOnly "E_READ_ONLY",
    /// The handle belongs to the parent process.
    Forked "E_FORKED",
    /// A sync failed: close, check the disk, open again.
    Poisoned "E_POISONED",
    Hidden "E_HIDDEN",
    /// The provider returned an error.
    Refused "E_REFUSED",
    Unreachable "E_UNREACHABLE",
    /// A code that this version of the crate does not know.
    Unknown "E_UNKNOWN",
}

impl Error {
    pub(crate) fn argument(path: &str, text: String) -> Error {
        Error::Argument(Detail { text, path: Some(path.into()), offset: None })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.detail()) {
            (Error::Json(error), _) => write!(f, "{error}"),
            (_, Some(Detail { text, path: Some(path), .. })) if !text.contains(path.as_str()) => {
                write!(f, "{path}: {text}")
            }
            (_, Some(detail)) => f.write_str(&detail.text),
            (_, None) => f.write_str(self.code()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Json(error) => Some(error),
            _ => None,
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Error {
        Error::Json(error)
    }
}
