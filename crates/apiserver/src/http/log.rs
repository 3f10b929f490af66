//! GET of a pod's log.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::io;
use std::sync::Arc;
use tokio::task::spawn_blocking;

use super::query::Query;
use super::{Call, moment, reply};
use crate::failure::{Cause, Failure};
use crate::logs::{LogError, LogRequest, LogStream, PodLogs};
use crate::rules::log;
use crate::serve::Endless;

pub(crate) async fn read(call: &Call) -> Result<Response, Failure> {
    let asked = Asked::of(&call.query, &call.name)?;
    let stored =
        call.app.store.get(&call.key()).ok_or_else(|| Failure::not_found(&call.served, &call.name))?;
    let pod = stored.value().map_err(Failure::internal)?;
    let container = log::container(&pod, call.query.get("container"))?.to_owned();
    if !log::is_placed(&pod) {
        return Ok(reply::empty(StatusCode::NO_CONTENT));
    }
    let source = call.app.pod_logs.as_ref();
    let remembered = match source.filter(|_| asked.previous) {
        Some(source) => remembers(source, call, &pod, &container).await?,
        None => false,
    };
    if !remembered {
        log::has_run(&pod, &container, asked.previous)?;
    }
    let source = source.ok_or_else(|| {
        Failure::not_implemented("this server cannot read logs of pods: it runs without a node")
    })?;
    let follow = asked.follow;
    let limit = asked.limit_bytes;
    let request = asked.request(call, pod, container);
    let logs = limited(source.read(request).await.map_err(refused)?, limit);
    let mut stop = call.app.stop.clone();
    let stopped = async move {
        // Nothing is ever sent: the channel closes.
        let _ = stop.changed().await;
    };
    let body = if follow { Body::from_stream(logs.take_until(stopped)) } else { Body::from_stream(logs) };
    let mut response = reply::log(body);
    if follow {
        response.extensions_mut().insert(Endless);
    }
    Ok(response)
}

/// Whoever has the logs looks for files, which may take its time.
async fn remembers(
    source: &Arc<dyn PodLogs>,
    call: &Call,
    pod: &Value,
    container: &str,
) -> Result<bool, Failure> {
    let (source, namespace) = (Arc::clone(source), call.namespace.clone());
    let (pod, container) = (pod.clone(), container.to_owned());
    let asking = spawn_blocking(move || source.remembers(&namespace, &pod, &container));
    asking.await.map_err(Failure::internal)
}

fn refused(error: LogError) -> Failure {
    match error {
        LogError::BadRequest(why) => Failure::bad_request(why),
        LogError::NotFound(why) => Failure::missing(why),
        LogError::Internal(why) => Failure::internal(why),
    }
}

/// Ends a log after so many bytes, without asking for more than that.
fn limited(logs: LogStream, limit: Option<u64>) -> LogStream {
    let Some(limit) = limit else { return logs };
    let cut = stream::unfold((logs, limit), |(mut logs, left)| async move {
        if left == 0 {
            return None;
        }
        let chunk: io::Result<Bytes> = logs.next().await?;
        let chunk = chunk.map(|mut bytes| {
            bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            bytes
        });
        let used = chunk.as_ref().map_or(0, |bytes| bytes.len() as u64);
        Some((chunk, (logs, left.saturating_sub(used))))
    });
    cut.boxed()
}

/// The options of a request, checked.
struct Asked {
    previous: bool,
    follow: bool,
    timestamps: bool,
    tail_lines: Option<u64>,
    limit_bytes: Option<u64>,
    since: Option<Since>,
}

enum Since {
    Ago(i64),
    Time(Timestamp),
}

impl Asked {
    fn of(query: &Query, pod: &str) -> Result<Self, Failure> {
        let tail_lines = query.integer("tailLines")?;
        let limit_bytes = query.integer("limitBytes")?;
        let seconds = query.integer("sinceSeconds")?;
        let time = time(query.get("sinceTime"))?;
        let mut causes = Vec::new();
        let mut at_least = |field: &str, value: Option<i64>, least: i64, why: &str| {
            let wrong = value.filter(|value| *value < least);
            causes.extend(wrong.map(|value| Cause::invalid(field, value, why)));
        };
        at_least("tailLines", tail_lines, 0, "must be greater than or equal to 0");
        at_least("limitBytes", limit_bytes, 1, "must be greater than 0");
        if time.is_none() {
            at_least("sinceSeconds", seconds, 1, "must be greater than 0");
        } else if seconds.is_some() {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            causes.push(Cause::forbidden("[]", why));
        }
        if query.has("stream") {
            causes.push(Cause::forbidden("stream", "may not be specified"));
        }
        if !causes.is_empty() {
            return Err(Failure::invalid_kind("PodLogOptions", "", pod, causes));
        }
        Ok(Self {
            previous: query.switch("previous"),
            follow: query.switch("follow"),
            timestamps: query.switch("timestamps"),
            tail_lines: tail_lines.and_then(|lines| lines.try_into().ok()),
            limit_bytes: limit_bytes.and_then(|bytes| bytes.try_into().ok()),
            since: time.map(Since::Time).or(seconds.map(Since::Ago)),
        })
    }

    fn request(self, call: &Call, pod: serde_json::Value, container: String) -> LogRequest {
        let since = self.since.map(|since| match since {
            Since::Time(time) => time,
            Since::Ago(seconds) => {
                let ago = SignedDuration::from_secs(seconds);
                call.app.now().checked_sub(ago).unwrap_or(Timestamp::MIN)
            }
        });
        LogRequest {
            namespace: call.namespace.clone(),
            pod,
            container,
            previous: self.previous,
            follow: self.follow,
            tail_lines: self.tail_lines,
            since,
            limit_bytes: self.limit_bytes,
            timestamps: self.timestamps,
        }
    }
}

fn time(text: &str) -> Result<Option<Timestamp>, Failure> {
    match text {
        "" | "null" => Ok(None),
        text => moment::parse(text).map(Some).map_err(Failure::bad_request),
    }
}
