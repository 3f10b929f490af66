//! In which form a client wants its answers: the `Accept` header, `pretty`, and who it is.
//!
//! Answers are made as JSON, which is what is stored. What a client asked for is decided here once, and written by
//! [`encode`](super::encode) at the edge.

use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};
use jiff::Timestamp;

use super::query::Query;
use super::reply::Render;
use crate::failure::Failure;
use crate::registry::Served;
use crate::tables::{Include, View};

/// What objects are written in.
pub(crate) const MEDIA: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// How the bytes of an answer are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    /// JSON for people.
    Pretty,
    Yaml,
    Protobuf,
}

/// What one request wants.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    accept: String,
    pretty: bool,
}

/// One form a client accepts.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

/// Another kind that objects are to be shown as: kind, group, version.
pub(crate) type Target<'a> = (&'a str, &'a str, &'a str);

/// The form that was chosen.
pub(crate) struct Choice<'a> {
    pub(crate) encoding: Encoding,
    pub(crate) target: Option<Target<'a>>,
}

impl Asked {
    pub(crate) fn of(headers: &HeaderMap, query: &Query) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // Whoever looks at the answer with their own eyes gets it indented.
        let human =
            || ["curl", "Wget", "Mozilla/5.0"].iter().any(|agent| text(USER_AGENT).starts_with(agent));
        let pretty = match query.get("pretty") {
            "" => human(),
            wish => ["1", "t", "T", "TRUE", "true", "True"].contains(&wish),
        };
        Self { accept: text(ACCEPT).to_owned(), pretty }
    }

    /// The best form that `allows` lets pass.
    pub(crate) fn choose(&self, allows: impl Fn(Encoding, Option<Target<'_>>) -> bool) -> Option<Choice<'_>> {
        if self.accept.is_empty() {
            return Some(Choice { encoding: self.json(false), target: None });
        }
        let mut clauses: Vec<Clause<'_>> = self.accept.split(',').filter_map(Clause::parse).collect();
        clauses.sort_by(|one, other| other.order().total_cmp(&one.order()));
        clauses.iter().find_map(|clause| {
            let (encoding, target) = (self.encoding(clause)?, clause.target());
            let stream = clause.parameter("stream");
            let streams = stream.is_empty() || (stream == "watch" && encoding != Encoding::Yaml);
            (streams && allows(encoding, target)).then_some(Choice { encoding, target })
        })
    }

    fn encoding(&self, clause: &Clause<'_>) -> Option<Encoding> {
        match clause.media {
            "application/json" | "application/*" | "*/*" | "*" => {
                Some(self.json(clause.parameter("pretty") == "1"))
            }
            "application/yaml" => Some(Encoding::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Encoding::Protobuf),
            _ => None,
        }
    }

    fn json(&self, pretty: bool) -> Encoding {
        if self.pretty || pretty { Encoding::Pretty } else { Encoding::Json }
    }

    /// The form of a `Status` or of a page: a client that accepts nothing of what there is gets JSON.
    pub(crate) fn plain(&self) -> Encoding {
        let choice = self.choose(|_, target| target.is_none());
        choice.map_or_else(|| self.json(false), |choice| choice.encoding)
    }

    /// The form of a resource's objects, and what they are shown as.
    pub(crate) fn resource(
        &self,
        served: &Served,
        query: &Query,
        now: Timestamp,
    ) -> Result<(Encoding, Render), Failure> {
        let watch = query.flag("watch");
        if !served.custom {
            self.check_produced(if watch { &[MEDIA, STREAMS] } else { &[MEDIA] })?;
        }
        let allows = |encoding, target: Option<Target<'_>>| match target {
            // What is not built in has no messages.
            None => !(served.custom && encoding == Encoding::Protobuf),
            Some((kind, "meta.k8s.io", "v1" | "v1beta1")) => match kind {
                "Table" => encoding != Encoding::Protobuf,
                "PartialObjectMetadata" | "PartialObjectMetadataList" => true,
                _ => false,
            },
            Some(_) => false,
        };
        let choice = self.choose(allows).ok_or_else(|| Failure::not_acceptable(MEDIA))?;
        if watch && choice.encoding == Encoding::Yaml {
            return Err(Failure::not_acceptable(STREAMS));
        }
        let render = match choice.target {
            None => Render::Object,
            Some((kind, _, version)) => {
                let api_version = if version == "v1" { "meta.k8s.io/v1" } else { "meta.k8s.io/v1beta1" };
                match kind {
                    "Table" => {
                        let include = Include::parse(query.get("includeObject"))?;
                        Render::Table(View { api_version, include, headers: true, now })
                    }
                    _ => Render::Metadata(api_version),
                }
            }
        };
        Ok((choice.encoding, render))
    }

    /// Whether the metadata that was asked for is of what there is: of one object, or of a list.
    pub(crate) fn check_shown(&self, served: &Served, render: Render, list: bool) -> Result<(), Failure> {
        let Render::Metadata(_) = render else { return Ok(()) };
        let choice = self.choose(|_, target| target.is_some_and(|(kind, ..)| kind.starts_with("Partial")));
        let Some((kind, ..)) = choice.and_then(|choice| choice.target) else { return Ok(()) };
        let is = match (kind, list) {
            ("PartialObjectMetadata", true) => "a list",
            ("PartialObjectMetadataList", false) => "not a list",
            _ => return Ok(()),
        };
        let found = served.go_type(list);
        Err(Failure::not_shown(format!("you requested {kind}, but the requested object is {is} ({found})")))
    }

    /// Before anything else, routes look whether they produce one of the types at all, without their parameters.
    pub(crate) fn check_produced(&self, produced: &[&str]) -> Result<(), Failure> {
        let known = |media: &str| {
            let media = media.split(';').next().unwrap_or_default().trim();
            media == "*/*" || produced.iter().flat_map(|list| list.split(", ")).any(|known| known == media)
        };
        if self.accept.is_empty() || self.accept.split(',').any(known) {
            return Ok(());
        }
        Err(Failure::not_produced(&produced.join(", ")))
    }
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().filter(|media| media.contains('/') || *media == "*")?;
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let quality = parameters.iter().find(|(name, _)| *name == "q").and_then(|(_, q)| q.parse().ok());
        Some(Self { media, parameters, quality: quality.unwrap_or(1.0) })
    }

    /// What was wanted more comes first, and a type by its name before a wildcard.
    fn order(&self) -> f32 {
        let wild = self.media.matches('*').count();
        self.quality * 4.0 - [0.0, 0.001, 0.002].get(wild).copied().unwrap_or(0.002)
    }

    fn parameter(&self, name: &str) -> &'a str {
        self.parameters.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    fn target(&self) -> Option<Target<'a>> {
        let target = (self.parameter("as"), self.parameter("g"), self.parameter("v"));
        (target != ("", "", "")).then_some(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    fn asked(accept: &str) -> Asked {
        Asked { accept: accept.into(), pretty: false }
    }

    fn outcome(accept: &str, custom: bool, query: &str) -> Result<(Encoding, String), String> {
        let mut served = builtin::table().find(|served| served.plural == "configmaps").unwrap();
        served.custom = custom;
        match asked(accept).resource(&served, &Query::parse(query, &http::Method::GET), Timestamp::UNIX_EPOCH)
        {
            Ok((encoding, render)) => {
                let shown = match render {
                    Render::Object => "object".to_owned(),
                    Render::Metadata(version) => format!("metadata {version}"),
                    Render::Table(view) => format!("table {}", view.api_version),
                };
                Ok((encoding, shown))
            }
            Err(failure) => Err(failure.status()["message"].as_str().unwrap().to_owned()),
        }
    }

    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

    #[test]
    fn the_best_form_that_is_served_is_chosen() {
        use Encoding::{Json, Protobuf, Yaml};
        for (accept, encoding, shown) in [
            ("", Json, "object"),
            ("*/*", Json, "object"),
            ("application/vnd.kubernetes.protobuf,application/json", Protobuf, "object"),
            ("application/json;q=0.1,application/yaml;q=0.9", Yaml, "object"),
            ("application/cbor,application/json;q=0.5", Json, "object"),
            ("*/*,application/yaml", Yaml, "object"),
            ("application/json;q=0", Json, "object"),
            ("garbage,*/*;q=0.1", Json, "object"),
            ("application/json; charset=utf-8", Json, "object"),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Json, "table meta.k8s.io/v1"),
            ("application/yaml;as=Table;v=v1;g=meta.k8s.io", Yaml, "table meta.k8s.io/v1"),
            ("application/json;as=Foo;v=v1;g=meta.k8s.io,application/json", Json, "object"),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io",
                Protobuf,
                "metadata meta.k8s.io/v1beta1",
            ),
        ] {
            assert_eq!(outcome(accept, false, ""), Ok((encoding, shown.into())), "{accept}");
        }
    }

    #[test]
    fn what_is_not_served_is_said_as_a_real_server_says_it() {
        let only = format!("only the following media types are accepted: {MEDIA}");
        let produced = format!("406: Not Acceptable\n\nAvailable representations: {MEDIA}");
        for (accept, expected) in [
            ("application/cbor", &produced),
            ("text/plain", &produced),
            ("application/*", &produced),
            ("application/json;as=Foo;v=v1;g=meta.k8s.io", &only),
            ("application/json;as=Table;v=v9;g=meta.k8s.io", &only),
            ("application/json;as=Table;v=v1;g=x", &only),
            ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", &only),
        ] {
            assert_eq!(outcome(accept, false, "").as_ref(), Err(expected), "{accept}");
        }
        assert_eq!(outcome("application/cbor", true, ""), Err(only.clone()));
        assert_eq!(outcome(PROTOBUF, true, ""), Err(only));
        assert!(outcome(&format!("{PROTOBUF},application/json"), true, "").is_ok());
        let streams = format!("only the following media types are accepted: {STREAMS}");
        assert_eq!(outcome("application/yaml,application/json", false, "watch=1"), Err(streams));
        assert!(outcome("application/cbor", false, "watch=1").unwrap_err().ends_with(STREAMS));
    }

    #[test]
    fn people_get_it_indented() {
        let of = |agent: &str, query: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, agent.parse().unwrap());
            Asked::of(&headers, &Query::parse(query, &http::Method::GET)).plain()
        };
        assert_eq!(of("curl/8", ""), Encoding::Pretty);
        assert_eq!(of("curl/8", "pretty=0"), Encoding::Json);
        assert_eq!(of("kubectl/v1", ""), Encoding::Json);
        assert_eq!(of("kubectl/v1", "pretty=true"), Encoding::Pretty);
        assert_eq!(asked("application/json;pretty=1").plain(), Encoding::Pretty);
        assert_eq!(asked("application/json;as=Table;v=v1;g=meta.k8s.io").plain(), Encoding::Json);
    }
}
