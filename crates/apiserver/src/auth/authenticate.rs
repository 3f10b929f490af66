//! Finds out who a request is from, before anything else looks at it.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONNECTION};
use http::{HeaderMap, HeaderValue, Method};
use std::sync::Arc;

use super::accounts::{Accepted, Accounts};
use super::certificate::{ClientAuthority, PeerCertificates};
use super::identity::ANONYMOUS;
use super::{Identity, Tokens};
use crate::failure::Failure;
use crate::http::reply;
use crate::serve::Place;
use crate::server::Clock;
use crate::store::Store;

/// Pages that probes read and that say nothing about objects.
const OPEN: [&str; 4] = ["/livez", "/readyz", "/healthz", "/version"];
/// Longer than any token that was ever made here; no time is spent on more.
const LONGEST_TOKEN: usize = 16 * 1024;

/// Knows whose credentials are whose.
#[derive(Clone, Debug, Default)]
pub struct Authenticator {
    tokens: Tokens,
    owner: Arc<Identity>,
    clients: Option<ClientAuthority>,
}

impl Authenticator {
    /// Everybody with one of these tokens is this user.
    pub fn new(tokens: Tokens, owner: Identity) -> Self {
        Self { tokens, owner: Arc::new(owner), clients: None }
    }

    /// Believes the certificates of this authority too.
    #[must_use]
    pub fn clients(mut self, authority: ClientAuthority) -> Self {
        self.clients = Some(authority);
        self
    }
}

/// Finds out who requests are from: made by [`crate::Server::guard`].
#[derive(Clone)]
pub struct Guard {
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) accounts: Option<Arc<Accounts>>,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("authenticator", &self.authenticator).finish_non_exhaustive()
    }
}

/// A token that somebody has, and for whom it is.
pub(crate) struct Known {
    pub(crate) identity: Arc<Identity>,
    pub(crate) audiences: Vec<String>,
}

impl Guard {
    /// Whose token it is, among those for one of `audiences`; otherwise why it is nobody's.
    pub(crate) fn token(&self, token: &[u8], audiences: &[String]) -> Result<Known, String> {
        const INVALID: &str = "invalid bearer token";
        if token.len() > LONGEST_TOKEN {
            return Err(INVALID.into());
        }
        if self.authenticator.tokens.accept(token) {
            let identity = Arc::clone(&self.authenticator.owner);
            return Ok(Known { identity, audiences: audiences.to_vec() });
        }
        let text = std::str::from_utf8(token).map_err(|_| INVALID)?;
        let accounts = self.accounts.as_ref().ok_or(INVALID)?;
        match accounts.check(&self.store, text, audiences, (self.clock)()) {
            None => Err(INVALID.into()),
            Some(Err(why)) => Err(format!("[{INVALID}, {why}]")),
            Some(Ok(Accepted { identity, audiences })) => {
                Ok(Known { identity: Arc::new(identity), audiences })
            }
        }
    }

    /// Whom tokens are for unless they say otherwise.
    pub(crate) fn audiences(&self) -> Vec<String> {
        self.accounts.as_ref().map(|accounts| accounts.audiences()).unwrap_or_default()
    }

    /// Who a request is from: by its certificate, else by its token. Nobody, if it says nothing; an error if what it
    /// says is wrong.
    fn find(&self, request: &Request<Body>) -> Result<Option<Arc<Identity>>, ()> {
        let shown = request.extensions().get::<Arc<PeerCertificates>>();
        let judged = shown.zip(self.authenticator.clients.as_ref());
        let by_certificate = judged.map(|(peer, clients)| peer.identity(clients, (self.clock)()));
        if let Some(Some(identity)) = by_certificate {
            return Ok(Some(identity));
        }
        match bearer(request.headers()) {
            Some(token) => match self.token(token, &self.audiences()) {
                Ok(known) => Ok(Some(known.identity)),
                Err(why) => {
                    tracing::debug!(why, "a token was refused");
                    Err(())
                }
            },
            None if by_certificate.is_some() => Err(()),
            None => Ok(None),
        }
    }
}

/// Refuses every request that is not from somebody known, except for health and version.
pub fn require(router: Router, guard: Guard) -> Router {
    router.layer(middleware::from_fn_with_state(Arc::new(guard), check))
}

async fn check(State(guard): State<Arc<Guard>>, mut request: Request<Body>, next: Next) -> Response {
    let identity = match guard.find(&request) {
        Ok(Some(identity)) => identity,
        Ok(None) if is_open(request.method(), request.uri().path()) => Arc::new(Identity::anonymous()),
        Ok(None) | Err(()) => {
            let mut response = reply::failure(&Failure::unauthorized());
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
            return response;
        }
    };
    let place = request.extensions().get::<Arc<Place>>().filter(|_| identity.name != ANONYMOUS);
    if place.is_some_and(|place| !place.belongs_to(&identity)) {
        let message = "you have too many open connections to this server: close some, or use HTTP/2";
        let mut response = reply::failure(&Failure::too_many_requests(message));
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
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
