//! What can go wrong between here and the server, and what to do about it.

use landfall_api::ApiError;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The settings make no client.
    #[error("{message}")]
    Setup { message: String, hint: String },
    #[error("cannot reach the server at {url}: {message}")]
    Unreachable {
        url: String,
        message: String,
        /// Whether the request may have arrived all the same.
        maybe_sent: bool,
    },
    #[error("no secure connection to {url}: {message}")]
    Tls { url: String, message: String },
    /// The server does not know the token, or it is not enough.
    #[error("{error}")]
    Forbidden { status: u16, error: ApiError },
    /// The server says no.
    #[error("{error}")]
    Refused { status: u16, error: ApiError },
    #[error("{url} answered with something else than expected: {message}")]
    BadAnswer { url: String, message: String },
}

impl ClientError {
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Setup { hint, .. } => Some(hint.clone()),
            Self::Unreachable { .. } => {
                Some("is it up? `landfall up` starts one here; --server says where another one is".into())
            }
            Self::Tls { message, .. } if message.contains("CaUsedAsEndEntity") => Some(
                "the server shows the certificate of an authority; make one for a server, with basicConstraints=CA:FALSE"
                    .into(),
            ),
            Self::Tls { message, .. } if message.contains("HTTP version") => {
                Some("does the server want https:// in --server?".into())
            }
            Self::Tls { .. } => Some(
                "give the certificate of its authority with --ca-file, and check the name in --server".into(),
            ),
            Self::Forbidden { status, error } => error.hint.clone().or_else(|| {
                Some(if *status == 401 {
                    "give a token with --token-file or LANDFALL_TOKEN; `landfall token create` makes one"
                        .into()
                } else {
                    "ask for a token with more rights; `landfall token create` makes one".into()
                })
            }),
            Self::Refused { error, .. } => error.hint.clone(),
            Self::BadAnswer { .. } => {
                Some("is that a Landfall server of the same version? `landfall status` asks it".into())
            }
        }
    }

    /// Whether the server may be there again in a moment, so that the same request is worth another try.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => matches!(status, 429 | 502..=504),
            _ => false,
        }
    }

    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Forbidden { status, .. } | Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// What the server says, if it says no.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Forbidden { error, .. } | Self::Refused { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Tells apart what happened on the way.
    pub(crate) fn on_the_way(url: &str, error: &reqwest::Error) -> Self {
        let mut chain = vec![error.to_string()];
        let mut source = std::error::Error::source(error);
        while let Some(inner) = source {
            chain.push(inner.to_string());
            source = inner.source();
        }
        // The outermost words repeat the address, the innermost say what happened.
        let message = chain.last().cloned().unwrap_or_default();
        let is_tls = chain.iter().any(|text| {
            ["certificate", "tls handshake", "TLS", "InvalidContentType", "corrupt message", "HTTP version"]
                .iter()
                .any(|word| text.contains(word))
        });
        let url = url.to_owned();
        if is_tls {
            Self::Tls { url, message }
        } else if error.is_decode() || error.is_body() {
            // Bodies are read as they come, so there is nothing to decode that could be wrong: it broke off.
            let message = format!("the connection broke off ({message})");
            Self::Unreachable { url, message, maybe_sent: true }
        } else if error.is_timeout() && !error.is_connect() {
            let message = "it takes too long to answer".into();
            Self::Unreachable { url, message, maybe_sent: true }
        } else {
            Self::Unreachable { url, message, maybe_sent: !error.is_connect() }
        }
    }

    /// The error in an answer with a status of 400 or above.
    pub(crate) fn of_answer(url: &str, status: u16, body: &[u8]) -> Self {
        let error = match serde_json::from_slice::<ApiError>(body) {
            Ok(error) => error,
            Err(_) if status == 401 || status == 403 => {
                ApiError::new("forbidden", "the server says no to this token")
            }
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                let start: String = text.trim().chars().take(200).collect();
                let message = if start.is_empty() {
                    format!("status {status}")
                } else {
                    format!("status {status}: {start}")
                };
                if status < 500 || status == 501 {
                    return Self::BadAnswer { url: url.to_owned(), message };
                }
                ApiError::new("server_error", format!("the server has a problem: {message}"))
            }
        };
        if status == 401 || status == 403 {
            Self::Forbidden { status, error }
        } else {
            Self::Refused { status, error }
        }
    }
}
