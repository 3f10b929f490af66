//! Finds out who a request is from, before anything else looks at it.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use http::header::{AUTHORIZATION, CACHE_CONTROL};
use http::{HeaderMap, HeaderValue, Method};
use std::sync::Arc;

use super::{Identity, Tokens};
use crate::failure::Failure;
use crate::http::reply;

/// Pages that probes read and that say nothing about objects.
const OPEN: [&str; 4] = ["/livez", "/readyz", "/healthz", "/version"];
/// Longer than any token that was ever made here; no time is spent on more.
const LONGEST_TOKEN: usize = 16 * 1024;

/// Knows whose credentials are whose.
#[derive(Clone, Debug)]
pub struct Authenticator {
    tokens: Tokens,
    owner: Arc<Identity>,
    anonymous: Arc<Identity>,
}

/// What the credentials of a request come to.
enum Found {
    Nobody,
    Wrong,
    User(Arc<Identity>),
}

impl Authenticator {
    /// Everybody with one of these tokens is this user.
    pub fn new(tokens: Tokens, owner: Identity) -> Self {
        Self { tokens, owner: Arc::new(owner), anonymous: Arc::new(Identity::anonymous()) }
    }

    fn find(&self, headers: &HeaderMap) -> Found {
        match bearer(headers) {
            None => Found::Nobody,
            Some(token) if token.len() > LONGEST_TOKEN => Found::Wrong,
            Some(token) if self.tokens.accept(token) => Found::User(Arc::clone(&self.owner)),
            Some(_) => Found::Wrong,
        }
    }
}

/// Refuses every request that is not from somebody known, except for health and version.
pub fn require(router: Router, authenticator: Authenticator) -> Router {
    router.layer(middleware::from_fn_with_state(Arc::new(authenticator), check))
}

async fn check(State(known): State<Arc<Authenticator>>, mut request: Request<Body>, next: Next) -> Response {
    let identity = match known.find(request.headers()) {
        Found::User(identity) => identity,
        Found::Nobody if is_open(request.method(), request.uri().path()) => Arc::clone(&known.anonymous),
        Found::Nobody | Found::Wrong => {
            let mut response = reply::failure(&Failure::unauthorized());
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
            return response;
        }
    };
    // Nobody behind this line needs it, so nobody can leak it.
    request.headers_mut().remove(AUTHORIZATION);
    request.extensions_mut().insert(identity);
    next.run(request).await
}

/// The token of an `Authorization: Bearer` header. One without a token, or of another scheme, counts as none.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token.as_bytes())
}

fn is_open(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && OPEN.contains(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_pages_are_the_pages_themselves() {
        for (method, path, open) in [
            (Method::GET, "/livez", true),
            (Method::GET, "/readyz/ping", false),
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
