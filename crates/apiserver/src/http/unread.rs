//! Answers that their clients have not read yet.
//!
//! Each is a copy in memory for as long as its client takes, and one connection may have a thousand of them. So nobody
//! but the owner of the server may have more than a share under way.

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::HeaderValue;
use http::header::RETRY_AFTER;
use http_body::{Body as _, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::reply;
use super::shares::{Part, Shares};
use crate::auth::Identity;
use crate::failure::Failure;

/// Bytes that one client may have asked for and not read.
pub(crate) const MOST: u64 = 256 << 20;
/// Smaller answers are not counted: connections hold as much.
const SMALL: u64 = 64 << 10;

/// The answer, counted until it is read or given up; or a refusal, if the client has too many already.
pub(crate) fn count(unread: &Shares, identity: &Identity, response: Response) -> Response {
    match response.body().size_hint().exact() {
        Some(size) if size > SMALL => match unread.take(identity, size) {
            Some(part) => response.map(|body| Body::new(Counted { body, _part: part })),
            None => refusal(),
        },
        _ => response,
    }
}

fn refusal() -> Response {
    let message = "you have asked for more than you have read: read the answers that are under way, ask for pages \
                   (limit), and try again";
    let mut response = reply::failure(&Failure::too_many_requests(message));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// A body that is counted while it is there.
struct Counted {
    body: Body,
    _part: Part,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_read_gets_no_more() {
        let unread = Shares::of(200 << 10);
        let user = Identity::account("tenant", "a", "");
        let answer = |size: u64| {
            let body = vec![b' '; usize::try_from(size).unwrap()];
            count(&unread, &user, reply::json(200, body))
        };
        let first = answer(SMALL * 2);
        assert_eq!((first.status().as_u16(), first.body().size_hint().exact()), (200, Some(SMALL * 2)));
        let refused = answer(SMALL * 2);
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.headers().get(RETRY_AFTER).unwrap(), "1");
        assert_eq!(answer(SMALL).status(), 200);
        drop(first);
        assert_eq!(answer(SMALL * 2).status(), 200);
    }
}
