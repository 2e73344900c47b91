//! Which call a method and a path of HTTP mean: read off google.api.http in the descriptors. Knows no message.

use std::collections::BTreeSet;

use prost_reflect::{DynamicMessage, MethodDescriptor, ReflectMessage, Value};

/// The calls that can be made over HTTP.
#[derive(Debug)]
pub(super) struct Routes {
    routes: Vec<Route>,
}

/// How one call is made over HTTP.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) method: MethodDescriptor,
    /// GET, POST, PATCH or DELETE.
    pub(super) verb: &'static str,
    /// Segments behind the first slash.
    segments: Vec<Segment>,
    /// What the path ends with: ":reset".
    action: Option<String>,
    /// Field of the request that the body is; "*": all of it; empty: there is none.
    pub(super) body: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Segment {
    Word(String),
    /// A field, by its path: one segment.
    Field(String),
    /// A field, by its path: all the segments that are left.
    Rest(String),
}

/// What a path means.
#[derive(Debug)]
pub(super) enum Found<'a> {
    /// The call, and its fields in the path.
    Call(&'a Route, Vec<(&'a str, String)>),
    /// The path takes these methods.
    OtherMethods(BTreeSet<&'static str>),
    /// No call has such a path.
    Nothing,
}

impl Routes {
    /// Of every service of the package.
    pub(super) fn of(package: &str) -> Self {
        let pool = weft_proto::json::pool();
        let services = pool.services().filter(|it| it.package_name() == package);
        let methods = services.flat_map(|service| service.methods().collect::<Vec<_>>());
        Self {
            routes: methods.filter_map(Route::of).collect(),
        }
    }

    pub(super) fn all(&self) -> &[Route] {
        &self.routes
    }

    /// The call that a method and a path mean; HEAD is asked as GET is.
    pub(super) fn find(&self, verb: &str, path: &str) -> Found<'_> {
        let verb = if verb == "HEAD" { "GET" } else { verb };
        let routes = self.routes.iter();
        let mut matching: Vec<_> = routes
            .filter_map(|route| Some((route, route.fields(path)?)))
            .collect();
        // "/v1/peers/leaf1:reset" is an action on leaf1, no name with a colon.
        if matching.iter().any(|(route, _)| route.action.is_some()) {
            matching.retain(|(route, _)| route.action.is_some());
        }
        let others: BTreeSet<_> = matching.iter().map(|(route, _)| route.verb).collect();
        if let Some((route, fields)) = matching.into_iter().find(|(it, _)| it.verb == verb) {
            return Found::Call(route, fields);
        }
        match others.is_empty() {
            true => Found::Nothing,
            false => Found::OtherMethods(others),
        }
    }
}

impl Route {
    fn of(method: MethodDescriptor) -> Option<Self> {
        let (verb, template, body) = rule(&method)?;
        let (path, action) = match template.rfind(':') {
            Some(at) if !template[at..].contains('}') => {
                (&template[..at], Some(template[at..].to_owned()))
            }
            _ => (template.as_str(), None),
        };
        let segments = path.trim_start_matches('/').split('/').map(Segment::of);
        Some(Self {
            verb,
            segments: segments.collect(),
            action,
            body,
            method,
        })
    }

    /// The fields that the path names; None if it is the path of another call.
    fn fields(&self, path: &str) -> Option<Vec<(&str, String)>> {
        let path = match &self.action {
            Some(action) => path.strip_suffix(action.as_str())?,
            None => path,
        };
        let mut left = Some(path.strip_prefix('/')?);
        let mut fields = Vec::new();
        for segment in &self.segments {
            let here = left?;
            let (first, rest) = match here.split_once('/') {
                Some((first, rest)) => (first, Some(rest)),
                None => (here, None),
            };
            left = rest;
            match segment {
                Segment::Word(word) if word == first => {}
                Segment::Word(_) => return None,
                Segment::Field(name) => fields.push((name.as_str(), decoded(first)?)),
                Segment::Rest(name) => {
                    fields.push((name.as_str(), decoded(here)?));
                    left = None;
                }
            }
        }
        left.is_none().then_some(fields)
    }

    /// Fields of the request that are in the path.
    pub(super) fn path_fields(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Word(_) => None,
            Segment::Field(name) | Segment::Rest(name) => Some(name.as_str()),
        })
    }

    /// The path as OpenAPI writes it: fields by their own name, without the message they are in and without their pattern.
    pub(super) fn open_api_path(&self) -> String {
        let segments = self.segments.iter().map(|segment| match segment {
            Segment::Word(word) => format!("/{word}"),
            Segment::Field(name) | Segment::Rest(name) => format!("/{{{}}}", last(name)),
        });
        segments.collect::<String>() + self.action.as_deref().unwrap_or("")
    }
}

impl Segment {
    fn of(text: &str) -> Self {
        let inner = text.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        match inner {
            None => Self::Word(text.to_owned()),
            Some(inner) => match inner.strip_suffix("=**") {
                Some(name) => Self::Rest(name.to_owned()),
                None => Self::Field(inner.to_owned()),
            },
        }
    }
}

/// The field's own name: "name" of "resource.name".
pub(super) fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Method, path and body of a call, as its option says.
fn rule(method: &MethodDescriptor) -> Option<(&'static str, String, String)> {
    let pool = method.parent_pool();
    let option = pool.get_extension_by_name("google.api.http")?;
    let options = method.options();
    if !options.has_extension(&option) {
        return None;
    }
    let value = options.get_extension(&option);
    let rule = value.as_message()?;
    let text = |name: &str| -> String {
        let value = rule.get_field_by_name(name);
        let text = value.as_deref().and_then(Value::as_str).map(str::to_owned);
        text.unwrap_or_default()
    };
    let verbs = [
        ("get", "GET"),
        ("post", "POST"),
        ("patch", "PATCH"),
        ("delete", "DELETE"),
    ];
    let (name, verb) = verbs.into_iter().find(|(name, _)| set(rule, name))?;
    Some((verb, text(name), text("body")))
}

fn set(message: &DynamicMessage, name: &str) -> bool {
    let field = message.descriptor().get_field_by_name(name);
    field.is_some_and(|field| message.has_field(&field))
}

/// Percent-encoded octets of a path; None if they are no text.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(octet) = rest.next() {
        if octet != b'%' {
            octets.push(octet);
            continue;
        }
        let digit = |octet: Option<u8>| char::from(octet?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        octets.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(octets).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(verb: &str, path: &str) -> String {
        match Routes::of("weft.v1").find(verb, path) {
            Found::Call(route, fields) => format!("{} {fields:?}", route.method.name()),
            Found::OtherMethods(others) => format!("{others:?}"),
            Found::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn a_path_means_one_call() {
        for (verb, path, call) in [
            ("GET", "/v1/peers", "ListPeers []"),
            ("HEAD", "/v1/peers", "ListPeers []"),
            (
                "GET",
                "/v1/peers/fd00::1",
                r#"GetPeer [("name", "fd00::1")]"#,
            ),
            (
                "POST",
                "/v1/peers/fd00::1:reset",
                r#"ResetPeer [("name", "fd00::1")]"#,
            ),
            (
                "PATCH",
                "/v1/links/a%3Aeth0--b:eth1",
                r#"UpdateLink [("resource.name", "a:eth0--b:eth1")]"#,
            ),
            (
                "GET",
                "/v1/routes/10.0.0.0/8",
                r#"GetRoute [("key", "10.0.0.0/8")]"#,
            ),
            (
                "GET",
                "/v1/routes/10.0.0.0%2F8",
                r#"GetRoute [("key", "10.0.0.0/8")]"#,
            ),
            ("POST", "/v1/fabric:apply", "ApplyFabric []"),
            ("PUT", "/v1/links/x", r#"{"DELETE", "GET", "PATCH"}"#),
            ("GET", "/v1/peers/a/b", "nothing"),
            ("GET", "/v1/peer", "nothing"),
            ("GET", "/v1/peers/%zz", "nothing"),
            ("GET", "/v1/peers/%ff", "nothing"),
        ] {
            assert_eq!(found(verb, path), call, "{verb} {path}");
        }
    }

    #[test]
    fn each_call_of_the_contract_has_a_path_of_its_own() {
        let routes = Routes::of("weft.v1");
        let pairs = routes.all().iter().map(|it| (it.verb, it.open_api_path()));
        let distinct: BTreeSet<_> = pairs.collect();
        assert_eq!(distinct.len(), routes.all().len());
        let services = weft_proto::json::pool().services();
        let methods = services.filter(|it| it.package_name() == "weft.v1");
        let methods: Vec<_> = methods
            .flat_map(|it| it.methods().collect::<Vec<_>>())
            .collect();
        // A file in parts is not JSON.
        let without: Vec<_> = methods
            .iter()
            .filter(|method| !routes.all().iter().any(|it| it.method == **method))
            .map(|it| it.name().to_owned())
            .collect();
        assert_eq!(without, ["ExportMrt"]);
    }
}
