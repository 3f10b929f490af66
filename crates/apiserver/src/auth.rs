//! Who may talk to the API: whoever has one of its tokens.
//!
//! There are no users and no rules about them: on one machine a token stands for the owner of the data directory.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use http::header::{AUTHORIZATION, CACHE_CONTROL};
use http::{HeaderMap, HeaderValue, Method};
use std::fmt;
use std::sync::Arc;
use subtle::{Choice, ConstantTimeEq};

use crate::failure::Failure;
use crate::http::reply;

/// Pages that probes read and that say nothing about objects.
const OPEN: [&str; 4] = ["/livez", "/readyz", "/healthz", "/version"];

/// The bearer tokens that are accepted.
#[derive(Clone, Default)]
pub struct Tokens(Arc<[Box<[u8]>]>);

impl fmt::Debug for Tokens {
    /// How many there are; never what they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

impl Tokens {
    /// These tokens. Empty ones are dropped: they would let in everybody.
    pub fn new<T: AsRef<str>>(tokens: impl IntoIterator<Item = T>) -> Self {
        let bytes = |token: T| Box::<[u8]>::from(token.as_ref().trim().as_bytes());
        Self(tokens.into_iter().map(bytes).filter(|token| !token.is_empty()).collect())
    }

    /// Looks at every token and at every byte, whatever was found before: the time tells nothing but lengths.
    fn accept(&self, given: &[u8]) -> bool {
        let found = self.0.iter().fold(Choice::from(0), |found, token| found | token.as_ref().ct_eq(given));
        found.into()
    }
}

/// Refuses every request without one of the tokens, except for health and version.
pub fn require(router: Router, tokens: Tokens) -> Router {
    router.layer(middleware::from_fn_with_state(tokens, check))
}

async fn check(State(tokens): State<Tokens>, mut request: Request<Body>, next: Next) -> Response {
    let known = bearer(request.headers()).is_some_and(|token| tokens.accept(token));
    if !known && !is_open(request.method(), request.uri().path()) {
        let mut response = reply::failure(&Failure::unauthorized());
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        return response;
    }
    // Nobody behind this line needs it, so nobody can leak it.
    request.headers_mut().remove(AUTHORIZATION);
    next.run(request).await
}

/// The token of an `Authorization: Bearer` header.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().as_bytes())
}

fn is_open(method: &Method, path: &str) -> bool {
    let under = |page: &str| path.strip_prefix(page).is_some_and(|r| r.is_empty() || r.starts_with('/'));
    matches!(*method, Method::GET | Method::HEAD) && OPEN.iter().any(|page| under(page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_tokens_count() {
        let tokens = Tokens::new(["abc", "", "  ", "longer-one\n"]);
        for (given, known) in
            [("abc", true), ("longer-one", true), ("", false), ("ab", false), ("abcd", false), ("ABC", false)]
        {
            assert_eq!(tokens.accept(given.as_bytes()), known, "{given:?}");
        }
        assert_eq!(format!("{tokens:?}"), "Tokens(2)");
        assert!(!Tokens::default().accept(b""));
    }

    #[test]
    fn open_pages_are_the_pages_themselves() {
        for (method, path, open) in [
            (Method::GET, "/livez", true),
            (Method::GET, "/readyz/ping", true),
            (Method::POST, "/livez", false),
            (Method::GET, "/livezx", false),
            (Method::GET, "/api", false),
            (Method::GET, "//livez", false),
            (Method::GET, "/versions", false),
        ] {
            assert_eq!(is_open(&method, path), open, "{method} {path}");
        }
    }
}
