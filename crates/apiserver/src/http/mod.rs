//! The HTTP edge: one file per verb, and what they share.

mod access;
mod apply;
mod aside;
mod backup;
mod body;
mod continued;
mod create;
mod delete;
mod encode;
mod get;
mod gzip;
mod hooks;
mod list;
mod log;
mod manager;
mod moment;
pub(crate) mod negotiate;
mod openapi;
mod patch;
mod path;
mod pods;
mod query;
pub(crate) mod reply;
mod reviews;
mod scale;
mod select;
mod shares;
mod stream;
mod token;
pub(crate) mod unread;
mod update;
mod watch;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::Method;
use http::header::HOST;
use http::request::Parts;
use serde_json::Value;
use std::sync::Arc;
use tower::ServiceExt;

pub(crate) use self::aside::Aside;
use self::aside::{LARGE, MANY};
use self::body::{Content, Input};
use self::negotiate::{Asked, Encoding};
pub(crate) use self::path::Page;
use self::path::{Path, Target};
pub(crate) use self::query::Query;
use self::reply::Render;
pub(crate) use self::shares::Shares;
pub(crate) use self::watch::INITIAL_EVENTS_END;
use crate::app::App;
use crate::auth::Identity;
use crate::auth::rbac::escalation::Grant;
use crate::discovery;
use crate::failure::Failure;
use crate::fields::Writer;
use crate::registry::{Catalog, Served};
use crate::rules::track::Track;
use crate::rules::update::Scope;
use crate::store::Key;

/// The API as a router. It is cheap to clone and takes requests with or without authority.
pub(crate) fn router(app: App) -> Router {
    Router::new().fallback(handle).with_state(Arc::new(app))
}

/// One request to a resource, resolved.
#[derive(Clone)]
pub(crate) struct Call {
    app: Arc<App>,
    /// Who is asking.
    identity: Arc<Identity>,
    served: Arc<Served>,
    /// Empty for cluster-scoped resources and for requests over all namespaces.
    namespace: String,
    /// Empty for requests to the collection.
    name: String,
    /// Empty for requests to the whole object.
    subresource: String,
    query: Query,
    /// How the answer is written, and what objects are shown as in it.
    encoding: Encoding,
    render: Render,
    /// Who owns what this request writes, unless it says so itself.
    agent: String,
}

impl Call {
    /// Who writes at a door of the resource.
    fn track<'a>(&'a self, catalog: &'a Catalog, subresource: &'a str, now: &'a str) -> Track<'a> {
        let manager = match self.query.get("fieldManager") {
            "" => &self.agent,
            manager => manager,
        };
        Track { served: &self.served, catalog, writer: Writer { manager, subresource, now }, unsent: None }
    }

    /// Refuses to let somebody grant with a role or binding what they do not have.
    fn check_grant(&self, object: &Value, old: Option<&Value>) -> Result<(), Failure> {
        let grant = Grant { served: &self.served, namespace: &self.namespace, object, old };
        self.app.rbac.check_grant(&self.identity, &grant)
    }

    fn key(&self) -> Key {
        Key::new(&self.served.table, &self.namespace, &self.name)
    }
}

async fn handle(State(app): State<Arc<App>>, mut request: Request<Body>) -> Response {
    let query = Query::parse(request.uri().query().unwrap_or_default(), request.method());
    let asked = Asked::of(request.headers(), &query);
    let compress = gzip::is_accepted(request.headers());
    let identity = match access::admit(&app, &mut request) {
        Ok(identity) => identity,
        Err(failure) => return encode::answer(reply::refusal(&failure), asked.plain(), &app.aside).await,
    };
    let extension = app.catalog().extensions().iter().find(|e| e.serves(request.uri().path())).cloned();
    if let Some(extension) = extension {
        return extension.router.oneshot(request).await.unwrap_or_else(|never| match never {});
    }
    let deprecated = path::deprecation(request.uri().path());
    let (aside, unread, user) = (app.aside.clone(), app.unread.clone(), Arc::clone(&identity));
    let mut response = match route(app, identity, &asked, query, request).await {
        Ok(response) => response,
        Err(failure) => reply::failure(&failure),
    };
    if let Some(warning) = deprecated {
        reply::warn(&mut response, &[warning]);
    }
    let encoding = response.extensions().get().copied().unwrap_or_else(|| asked.plain());
    let response = unread::count(&unread, &user, encode::answer(response, encoding, &aside).await);
    if compress { gzip::answer(response).await } else { response }
}

async fn route(
    app: Arc<App>,
    identity: Arc<Identity>,
    asked: &Asked,
    query: Query,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let reads = [Method::GET, Method::HEAD].contains(&parts.method);
    match path::parse(parts.uri.path()) {
        Path::Unknown => not_there(&app.catalog(), parts.uri.path()),
        Path::OpenId { keys } => Ok(open_id(&app, &parts, keys)),
        Path::Discovery(_) | Path::OpenApi(_) | Path::Backup if !reads => Err(Failure::verb_not_allowed()),
        Path::Discovery(page) => match discovery::answer(&app, &page, (&query, asked), &parts)? {
            Some(answer) => Ok(reply::discovery(answer)),
            None => not_there(&app.catalog(), parts.uri.path()),
        },
        Path::Backup => Ok(backup::answer(&app)),
        Path::OpenApi(document) => Ok(openapi::answer(&app, &document, &query, &parts.headers)),
        Path::Resource(target) => {
            let request = Request::from_parts(parts, body);
            resource(app, identity, (query, asked), target, request).await
        }
    }
}

/// A path that addresses nothing: below a group of the server's own that is an error of the API, elsewhere of the web.
fn not_there(catalog: &Catalog, path: &str) -> Result<Response, Failure> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let group = match parts.next() {
        Some("api") => Some(""),
        Some("apis") => parts.next(),
        _ => None,
    };
    match group.filter(|group| catalog.is_built_in(group)) {
        Some(_) => Err(Failure::no_such_resource()),
        None => Ok(reply::no_such_page()),
    }
}

/// A subresource that an object does not have.
fn no_such_part(call: &Call) -> Failure {
    if call.served.custom {
        Failure::not_found(&call.served, &call.name)
    } else {
        Failure::no_such_resource()
    }
}

/// A request to a resource or a part of one.
async fn resource(
    app: Arc<App>,
    identity: Arc<Identity>,
    (mut query, asked): (Query, &Asked),
    target: Target,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let catalog = app.catalog();
    let Some(served) = catalog.get(&target.group, &target.version, &target.plural) else {
        return not_there(&catalog, parts.uri.path());
    };
    let Target { namespace, name, subresource, watch, .. } = target;
    let scoped = namespace.is_some();
    if scoped != served.namespaced && (scoped || name.is_some()) {
        return not_there(&catalog, parts.uri.path());
    }
    if watch {
        query.set_watch();
    }
    // A log or a stream is what it is, whatever objects should look like.
    let (encoding, render) = match subresource.as_deref() {
        Some("log" | "exec" | "attach" | "portforward") => (asked.plain(), Render::Object),
        _ => asked.resource(served, &query, app.now())?,
    };
    let agent = manager::from_agent(&parts.headers);
    let reads = [Method::GET, Method::HEAD].contains(&parts.method);
    // Nobody reads what comes with these.
    let (content, size) = match subresource.as_deref() {
        Some("exec" | "attach" | "portforward") => (Content::Unread(body), 0),
        _ if reads => (Content::Unread(body), 0),
        _ => Content::Unread(body).measured().await,
    };
    let input = Input { headers: parts.headers, extensions: parts.extensions, content };
    let call = Call {
        app,
        identity,
        served: Arc::clone(served),
        namespace: namespace.unwrap_or_default(),
        name: name.unwrap_or_default(),
        subresource: subresource.clone().unwrap_or_default(),
        query,
        encoding,
        render,
        agent,
    };
    let listed = call.name.is_empty() && parts.method != Method::POST;
    let watches = call.query.flag("watch");
    let (mut response, done) =
        carry_out(call, parts.method, (input, size), (subresource, scoped, watch)).await?;
    if done {
        let shown = if watches { Ok(()) } else { asked.check_shown(served, render, listed) };
        match shown {
            Ok(()) => {
                response.extensions_mut().insert(encoding);
            }
            Err(failure) => response = reply::failure(&failure),
        }
    }
    // Whatever became of the request, the client should know that it came by an old door.
    reply::warn(&mut response, served.deprecation.as_slice());
    Ok(response)
}

/// What a request is for: a part of an object, a namespace, a watch.
type Purpose = (Option<String>, bool, bool);

/// The answer to a request, and whether that is no failure. Whatever takes long is done aside.
async fn carry_out(
    call: Call,
    method: Method,
    (input, size): (Input, usize),
    purpose: Purpose,
) -> Result<(Response, bool), Failure> {
    let aside = takes_long(&call, &method, size).then(|| call.app.aside.clone());
    let work = Box::pin(async move {
        match perform(call, method, input, purpose).await {
            Ok(response) => (response, true),
            // Written here, because a failure may quote much of what was sent.
            Err(failure) => (reply::failure(&failure), false),
        }
    });
    match aside {
        Some(aside) => aside.run(work).await,
        None => Ok(work.await),
    }
}

/// Whether a request is better done aside, by the sizes of what was sent and of what is there.
fn takes_long(call: &Call, method: &Method, sent: usize) -> bool {
    let store = &call.app.store;
    let reads = [Method::GET, Method::HEAD].contains(method);
    if call.name.is_empty() && reads {
        return !call.query.flag("watch") && store.len(&call.served.table) > MANY;
    }
    // Loops may cost anything up to their budget, whatever the size.
    let has_loops = call.served.schema.as_ref().is_some_and(|schema| schema.has_loops());
    let rules = !reads && (call.served.is_crd() || has_loops);
    let stored = || store.latest(&call.key()).map_or(0, |stored| stored.bytes.len());
    rules || sent > LARGE || (!call.name.is_empty() && sent + stored() > LARGE)
}

/// Does what a request asks for.
async fn perform(
    call: Call,
    method: Method,
    input: Input,
    (subresource, scoped, watch): Purpose,
) -> Result<Response, Failure> {
    match subresource {
        None if call.served.review && call.name.is_empty() => reviews::create(&call, &method, input).await,
        _ if call.served.review => Err(Failure::no_such_resource()),
        Some(subresource) => sub(call, &subresource, &method, input).await,
        None if call.name.is_empty() => collection(call, &method, input, scoped).await,
        None => object(call, &method, input, watch).await,
    }
}

/// What others need to check the tokens of service accounts.
fn open_id(app: &App, parts: &Parts, keys: bool) -> Response {
    let Some(accounts) = &app.accounts else {
        return reply::no_such_page();
    };
    if keys {
        return reply::keys(accounts.jwks().to_string());
    }
    let header = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = parts.uri.authority().map(|authority| authority.as_str()).or(header);
    reply::json(200, accounts.discovery(host.unwrap_or("localhost")).to_string())
}

async fn collection(call: Call, method: &Method, input: Input, scoped: bool) -> Result<Response, Failure> {
    let writable = scoped || !call.served.namespaced;
    match *method {
        Method::GET | Method::HEAD if call.query.flag("watch") => watch::watch(call).await,
        Method::GET | Method::HEAD => list::list(&call).await,
        Method::POST if writable => create::create(&call, input).await,
        Method::DELETE if writable && !call.served.one_by_one => {
            delete::delete_collection(&call, input).await
        }
        Method::POST if call.served.custom => Ok(reply::no_such_page()),
        _ if call.served.custom => Err(Failure::bad_request("name must be provided")),
        _ => Err(Failure::verb_not_allowed()),
    }
}

async fn object(mut call: Call, method: &Method, input: Input, watch: bool) -> Result<Response, Failure> {
    match *method {
        // Only the older path watches one object; a flag alone does not.
        Method::GET | Method::HEAD if watch => {
            call.query.select_name(&call.name);
            watch::watch(call).await
        }
        Method::GET | Method::HEAD => get::get(&call).await,
        Method::PUT => update::update(&call, Scope::Main, input).await,
        Method::PATCH => patch::patch(&call, Scope::Main, input).await,
        Method::DELETE => delete::delete(&call, input).await,
        // The name of a new custom object is that of the body.
        Method::POST if call.served.custom => create::create(&call, input).await,
        _ => Err(Failure::verb_not_allowed()),
    }
}

async fn sub(call: Call, subresource: &str, method: &Method, input: Input) -> Result<Response, Failure> {
    let pods = call.served.is_core("pods");
    match (subresource, method.clone()) {
        ("status", _) if !call.served.status => Err(no_such_part(&call)),
        ("status", Method::GET | Method::HEAD) => get::get(&call).await,
        ("status", Method::PUT) => update::update(&call, Scope::Status, input).await,
        ("status", Method::PATCH) => patch::patch(&call, Scope::Status, input).await,
        ("scale", _) if call.served.scale.is_none() => Err(no_such_part(&call)),
        ("scale", Method::GET | Method::HEAD) => scale::get(&call).await,
        ("scale", Method::PUT) => scale::put(&call, input).await,
        ("scale", Method::PATCH) => scale::patch(&call, input).await,
        ("finalize", Method::PUT) if call.served.is_core("namespaces") => {
            update::finalize(&call, input).await
        }
        ("binding", Method::POST) if pods => pods::bind(&call, input).await,
        ("eviction", Method::POST) if pods => pods::evict(&call, input).await,
        ("token", _) if call.served.is_core("serviceaccounts") => match call.app.accounts.clone() {
            Some(accounts) if *method == Method::POST => token::create(&call, &accounts, input).await,
            Some(_) => Err(Failure::verb_not_allowed()),
            None => Ok(reply::no_such_page()),
        },
        ("log", Method::GET | Method::HEAD) if pods => log::read(&call).await,
        ("exec" | "attach" | "portforward", Method::GET | Method::POST) if pods => {
            call.ask_to_connect().await?;
            stream::answered(match subresource {
                "exec" => stream::exec(&call, input).await,
                "attach" => stream::attach(&call, input).await,
                _ => stream::forward(&call, input).await,
            })
        }
        ("status" | "scale", method) if call.served.custom => {
            let verb = if method == Method::DELETE { "delete" } else { "create" };
            Err(Failure::verb_not_supported(&call.served, verb))
        }
        ("status" | "scale", _) => Err(Failure::verb_not_allowed()),
        ("binding" | "eviction" | "log" | "exec" | "attach" | "portforward", _) if pods => {
            Err(Failure::verb_not_allowed())
        }
        _ => Err(no_such_part(&call)),
    }
}
