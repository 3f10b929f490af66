//! Acting as somebody else, for those who may.

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;

use super::Identity;
use super::identity::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, account_groups, split_account};
use super::rbac::{Ask, Rbac};
use super::request;
use crate::failure::Failure;

const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Who a request is to be taken for, if its headers say so and they may.
pub(crate) fn apply(
    rbac: &Rbac,
    identity: &Identity,
    headers: &mut HeaderMap,
) -> Result<Option<Identity>, Failure> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(None);
    }
    let wanted = Wanted::read(headers);
    let names: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
    if wanted.user.is_empty() {
        return wanted.without_user().map_or(Ok(None), Err);
    }
    for ask in wanted.asks() {
        let decision = rbac.decide(identity, &ask);
        if !decision.allowed {
            return Err(request::forbidden(&identity.name, &ask, &decision.reason));
        }
    }
    Ok(Some(wanted.identity()))
}

/// What the headers ask for.
#[derive(Default)]
struct Wanted {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Wanted {
    fn read(headers: &HeaderMap) -> Self {
        let texts = |name: &str| -> Vec<String> {
            headers.get_all(name).iter().map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned()).collect()
        };
        let first = |name: &str| texts(name).into_iter().next().unwrap_or_default();
        let mut extra = BTreeMap::new();
        for name in headers.keys() {
            if let Some(key) = name.as_str().strip_prefix(EXTRA) {
                let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
                extra.insert(key, texts(name.as_str()));
            }
        }
        Self { user: first(USER), uid: first(UID), groups: texts(GROUP), extra }
    }

    /// The refusal of headers that name everything but a user.
    fn without_user(&self) -> Option<Failure> {
        if self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty() {
            return None;
        }
        let list = |list: &[String]| match list {
            [] => "[]string(nil)".to_owned(),
            many => {
                let many: Vec<String> = many.iter().map(|text| format!("{text:?}")).collect();
                format!("[]string{{{}}}", many.join(", "))
            }
        };
        let extra: Vec<String> =
            self.extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
        let extra = match extra.as_slice() {
            [] => "map[string][]string(nil)".to_owned(),
            many => format!("map[string][]string{{{}}}", many.join(", ")),
        };
        Some(Failure::bad_request(format!(
            "requested &user.DefaultInfo{{Name:\"\", UID:{:?}, Groups:{}, Extra:{extra}}} without impersonating a user name",
            self.uid,
            list(&self.groups),
        )))
    }

    /// Everything that has to be allowed.
    fn asks(&self) -> Vec<Ask> {
        let ask = |group: &str, resource: &str, name: &str| Ask {
            verb: "impersonate".into(),
            group: group.into(),
            resource: resource.into(),
            name: name.into(),
            ..Ask::default()
        };
        let user = match split_account(&self.user) {
            Some((namespace, name)) => {
                Ask { namespace: namespace.into(), ..ask("", "serviceaccounts", name) }
            }
            None => ask("", "users", &self.user),
        };
        let mut asks = vec![user];
        asks.extend(self.groups.iter().map(|group| ask("", "groups", group)));
        for (key, values) in &self.extra {
            asks.extend(
                values.iter().map(|value| Ask {
                    subresource: key.clone(),
                    ..ask(AUTHENTICATION, "userextras", value)
                }),
            );
        }
        if !self.uid.is_empty() {
            asks.push(ask(AUTHENTICATION, "uids", &self.uid));
        }
        asks
    }

    fn identity(self) -> Identity {
        let mut groups = self.groups;
        if let (true, Some((namespace, _))) = (groups.is_empty(), split_account(&self.user)) {
            groups.extend(account_groups(namespace));
        }
        let has = |wanted: &str| groups.iter().any(|group| group == wanted);
        let own = if self.user == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !has(UNAUTHENTICATED) && !has(own) {
            groups.push(own.to_owned());
        }
        Identity { name: self.user, uid: self.uid, groups, extra: self.extra }
    }
}
