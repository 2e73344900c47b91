//! The API as OpenAPI 3.1 describes it, with the texts of the contract: written from the descriptors. Knows no handler.

use std::collections::{BTreeMap, HashMap};

use prost_reflect::{
    EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor, MethodDescriptor,
};
use serde_json::{Map, Value, json};

use super::request::well_known;
use super::route::{self, Route, Routes};

/// The document.
pub(super) fn document(routes: &Routes) -> Value {
    let mut book = Book::default();
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let mut tags: BTreeMap<String, String> = BTreeMap::new();
    for route in routes.all() {
        let service = route.method.parent_service();
        let text = book.text(&service.parent_file(), service.path());
        tags.insert(service.name().to_owned(), text);
        let operation = book.operation(route);
        let path = paths.entry(route.open_api_path()).or_default();
        path.insert(route.verb.to_ascii_lowercase(), operation);
    }
    let tags: Vec<_> = tags
        .into_iter()
        .map(|(name, description)| json!({"name": name, "description": description}))
        .collect();
    let mut schemas = book.schemas;
    schemas.insert("Error".to_owned(), error());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "weft",
            "version": env!("CARGO_PKG_VERSION"),
            "description": CONVENTIONS,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": tags,
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// Schemas that were met, and the comments of files that were read.
#[derive(Default)]
struct Book {
    schemas: BTreeMap<String, Value>,
    texts: HashMap<String, HashMap<Vec<i32>, String>>,
}

impl Book {
    fn operation(&mut self, route: &Route) -> Value {
        let method = &route.method;
        let text = self.text(&method.parent_service().parent_file(), method.path());
        let summary = text.split(". ").next().unwrap_or_default().to_owned();
        let mut operation = json!({
            "operationId": format!("{}_{}", method.parent_service().name(), method.name()),
            "tags": [method.parent_service().name()],
            "summary": summary.trim_end_matches('.'),
            "description": text,
            "parameters": self.parameters(route),
            "responses": self.responses(method),
        });
        let schema = match route.body.as_str() {
            "" => None,
            "*" => Some((self.body(route), method.input())),
            name => {
                let field = method.input().get_field_by_name(name);
                let inner = field.and_then(|field| field.kind().as_message().cloned());
                inner.map(|inner| (self.message(&inner), inner))
            }
        };
        // What changes is a part of a resource.
        let schema = schema.map(|(schema, message)| match route.verb {
            "PATCH" => schema,
            _ => self.with_required(schema, &message, route),
        });
        if let Some(schema) = schema {
            operation["requestBody"] = json!({
                "required": route.body != "*",
                "content": {"application/json": {"schema": schema}},
            });
        }
        operation
    }

    /// The whole request, without what the path names.
    fn body(&mut self, route: &Route) -> Value {
        let input = route.method.input();
        let in_path: Vec<_> = route.path_fields().map(str::to_owned).collect();
        if in_path.is_empty() {
            return self.message(&input);
        }
        let fields = input
            .fields()
            .filter(|it| !in_path.iter().any(|name| name == it.name()));
        let fields: Map<_, _> = fields
            .map(|field| (field.name().to_owned(), self.documented(&field)))
            .collect();
        json!({"type": "object", "properties": fields, "additionalProperties": false})
    }

    /// The schema of a body with the fields that cannot be left out.
    fn with_required(&mut self, schema: Value, body: &MessageDescriptor, route: &Route) -> Value {
        let in_path: Vec<_> = route.path_fields().collect();
        match self.required(body, &in_path) {
            Some(required) => json!({"allOf": [schema, required]}),
            None => schema,
        }
    }

    /// Which fields of a message cannot be left out, whatever else is known of them; None: each can be.
    fn required(&mut self, message: &MessageDescriptor, given: &[&str]) -> Option<Value> {
        let (mut names, mut inner) = (Vec::new(), Map::new());
        for field in message.fields().filter(|it| !given.contains(&it.name())) {
            if self.is_required(&field) {
                names.push(field.name().to_owned());
            }
            let below = field.kind();
            let below = below.as_message().filter(|_| !field.is_map());
            if let Some(required) = below.and_then(|below| self.required(below, &[])) {
                let schema = match field.is_list() {
                    true => json!({"items": required}),
                    false => required,
                };
                inner.insert(field.name().to_owned(), schema);
            }
        }
        let is_any = !names.is_empty() || !inner.is_empty();
        is_any.then(|| json!({"required": names, "properties": inner}))
    }

    /// Whether the contract says that a field cannot be left out, without a condition.
    fn is_required(&mut self, field: &FieldDescriptor) -> bool {
        let text = self.text(&field.parent_message().parent_file(), field.path());
        text.starts_with("REQUIRED. ") || text.ends_with(" REQUIRED.")
    }

    fn responses(&mut self, method: &MethodDescriptor) -> Value {
        let schema = self.message(&method.output());
        let content = match streams(method) {
            false => json!({"application/json": {"schema": schema}}),
            true => json!({"text/event-stream": {"schema": {
                "type": "string",
                "description": format!("Server-sent events: of each the data is a {} as JSON, and the id its revision; \
                    a refusal is an event of type status.", method.output().name()),
            }}}),
        };
        let error = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}});
        json!({
            "200": {"description": "The answer.", "content": content},
            "default": {"description": "A refusal, as google.rpc.Status.", "content": error},
        })
    }

    fn parameters(&mut self, route: &Route) -> Vec<Value> {
        let input = route.method.input();
        let mut parameters = Vec::new();
        for name in route.path_fields() {
            if let Some(field) = nested(&input, name) {
                parameters.push(json!({
                    "name": route::last(name), "in": "path", "required": true,
                    "description": self.text(&field.parent_message().parent_file(), field.path()),
                    "schema": self.parameter(&field),
                }));
            }
        }
        if route.body != "*" {
            let fields = input.fields().filter(|field| field.name() != route.body);
            for field in fields {
                self.query(&field, "", route, &mut parameters);
            }
        }
        if streams(&route.method) {
            parameters.push(json!({
                "name": "Last-Event-ID", "in": "header", "description": LAST_EVENT_ID,
                "schema": {"type": "string", "pattern": "^[0-9]{1,19}$"},
            }));
        }
        parameters
    }

    /// A field as it stands in a query; those of a message one by one, behind its name.
    fn query(
        &mut self,
        field: &FieldDescriptor,
        before: &str,
        route: &Route,
        parameters: &mut Vec<Value>,
    ) {
        let name = format!("{before}{}", field.name());
        if route.path_fields().any(|it| it == name) || field.is_map() {
            return;
        }
        let description = self.text(&field.parent_message().parent_file(), field.path());
        if let Kind::Message(inner) = field.kind()
            && !well_known(&inner)
        {
            if field.is_list() {
                return;
            }
            parameters.push(json!({
                "name": name, "in": "query", "allowEmptyValue": true,
                "description": format!("{description} Empty: with no field of it."),
                "schema": {"type": "string", "enum": [""]},
            }));
            let before = format!("{name}.");
            for inner in inner.fields() {
                self.query(&inner, &before, route, parameters);
            }
            return;
        }
        let several = if field.is_list() { SEVERAL } else { "" };
        parameters.push(json!({
            "name": name, "in": "query", "description": format!("{description}{several}"),
            "schema": self.parameter(field),
        }));
    }

    /// The schema of a field in a path or a query.
    fn parameter(&mut self, field: &FieldDescriptor) -> Value {
        match field.is_list() {
            true => json!({"type": "array", "items": self.kind(&field.kind())}),
            false => self.kind(&field.kind()),
        }
    }

    /// A reference to the schema of a message, which is written when it is met first.
    fn message(&mut self, message: &MessageDescriptor) -> Value {
        let name = short(message.full_name());
        if !self.schemas.contains_key(&name) {
            // It may be met again within itself.
            self.schemas.insert(name.clone(), Value::Null);
            let fields: Map<_, _> = message
                .fields()
                .map(|field| (field.name().to_owned(), self.documented(&field)))
                .collect();
            let schema = json!({
                "type": "object",
                "description": self.text(&message.parent_file(), message.path()),
                "properties": fields,
                "additionalProperties": false,
            });
            self.schemas.insert(name.clone(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    fn documented(&mut self, field: &FieldDescriptor) -> Value {
        // In the JSON of Protocol Buffers null is a field that is not there.
        let mut schema = self.field(field);
        match schema
            .get("type")
            .and_then(Value::as_str)
            .map(str::to_owned)
        {
            Some(kind) => schema["type"] = json!([kind, "null"]),
            None => schema = json!({"anyOf": [schema, {"type": "null"}]}),
        }
        let text = self.text(&field.parent_message().parent_file(), field.path());
        schema["description"] = Value::from(text);
        schema
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => json!({
                "type": "object",
                "additionalProperties": self.kind(&entry.map_entry_value_field().kind()),
            }),
            kind if field.is_list() => json!({"type": "array", "items": self.kind(&kind)}),
            kind => self.kind(&kind),
        }
    }

    fn kind(&mut self, kind: &Kind) -> Value {
        let integer =
            |low: i64, high: u64| json!({"type": "integer", "minimum": low, "maximum": high});
        match kind {
            Kind::String => json!({"type": "string"}),
            Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
            Kind::Bool => json!({"type": "boolean"}),
            Kind::Double | Kind::Float => json!({"type": "number"}),
            Kind::Uint32 | Kind::Fixed32 => integer(0, u32::MAX.into()),
            Kind::Uint64 | Kind::Fixed64 => integer(0, u64::MAX),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                integer(i32::MIN.into(), i32::MAX.unsigned_abs().into())
            }
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
                integer(i64::MIN, i64::MAX.unsigned_abs())
            }
            Kind::Enum(kind) => self.enumeration(kind),
            Kind::Message(message) => match message.full_name() {
                "google.protobuf.Timestamp" => json!({"type": "string", "format": "date-time"}),
                "google.protobuf.Duration" => {
                    json!({"type": "string", "pattern": r"^-?[0-9]{1,12}(\.[0-9]{1,9})?s$"})
                }
                "google.protobuf.FieldMask" => json!({
                    "type": "string",
                    "description": "Paths of fields, with commas between them.",
                }),
                _ => self.message(message),
            },
        }
    }

    /// A value by its name; one without a name by its number.
    fn enumeration(&mut self, kind: &EnumDescriptor) -> Value {
        let name = short(kind.full_name());
        if !self.schemas.contains_key(&name) {
            let names: Vec<_> = kind.values().map(|value| value.name().to_owned()).collect();
            let values = kind.values().map(|value| {
                let text = self.text(&kind.parent_file(), value.path());
                format!("\n- {}: {text}", value.name())
            });
            let values: String = values.collect();
            let text = self.text(&kind.parent_file(), kind.path());
            let schema = json!({
                "description": format!("{text}{values}"),
                "anyOf": [
                    {"type": "string", "enum": names},
                    {"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX},
                ],
            });
            self.schemas.insert(name.clone(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    /// The comment before a definition.
    fn text(&mut self, file: &FileDescriptor, path: &[i32]) -> String {
        let texts = self.texts.entry(file.name().to_owned());
        let texts = texts.or_insert_with(|| {
            let file = file.file_descriptor_proto();
            let places = file.source_code_info.iter().flat_map(|info| &info.location);
            let places = places.filter(|place| place.leading_comments.is_some());
            places
                .map(|place| (place.path.clone(), joined(place.leading_comments())))
                .collect()
        });
        texts.get(path).cloned().unwrap_or_default()
    }
}

/// Lines of a comment as one text; a line that is set apart, as in a table, stays a line.
fn joined(comment: &str) -> String {
    let mut text = String::new();
    for line in comment.trim().lines() {
        let line = line.strip_prefix(' ').unwrap_or(line);
        match line.starts_with("  ") || line.is_empty() || text.is_empty() {
            true if !text.is_empty() => text.push('\n'),
            true => {}
            false => text.push(' '),
        }
        text.push_str(line.trim_end());
    }
    text
}

/// The field at a path: "resource.name".
fn nested(message: &MessageDescriptor, path: &str) -> Option<FieldDescriptor> {
    let (first, rest) = match path.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    };
    let field = message.get_field_by_name(first)?;
    match rest {
        None => Some(field),
        Some(rest) => nested(field.kind().as_message()?, rest),
    }
}

/// Whether the answers of a call are events.
fn streams(method: &MethodDescriptor) -> bool {
    method.is_server_streaming() && !method.is_client_streaming()
}

/// The name of a schema.
fn short(full_name: &str) -> String {
    let name = full_name.strip_prefix("weft.v1.").unwrap_or(full_name);
    name.to_owned()
}

/// A refusal.
fn error() -> Value {
    json!({
        "type": "object",
        "description": "Why a call is refused.",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["code", "status", "message", "details"],
            "properties": {
                "code": {"type": "integer", "description": "The number that HTTP has for it."},
                "status": {"type": "string", "description": "Name of a google.rpc.Code."},
                "message": {"type": "string"},
                "details": {
                    "type": "array",
                    "description": "google.rpc.ErrorInfo with a reason that the service documents, and \
                        google.rpc.BadRequest with every field at fault.",
                    "items": {"type": "object", "required": ["@type"], "properties": {"@type": {"type": "string"}}},
                },
            },
        }},
    })
}

const CONVENTIONS: &str = "The API of weft, a replicated BGP EVPN reflector and fabric controller. Any replica takes any call. \
    Fields have the names of the contract weft.v1, numbers are numbers, times are RFC 3339, spans of time seconds with an \"s\" behind \
    them, and a field that is absent is not there. A change is application/json of 1 MiB at most, a whole fabric of 128 MiB, and \
    is made once for each request_id.\n\n\
    In a path a `/` within a name is written `%2F`: `Ethernet1/1` is `Ethernet1%2F1`. A parameter that is a list is there once \
    for each element. What a method of gRPC takes or answers as a stream of parts is one body here. \
    Where a body is a resource, a refusal calls its fields `resource.NAME`; what cannot be read is told before what is read is \
    looked at.\n\n\
    gRPC answers at the same port: an operation `FabricService_GetLink` is the method `/weft.v1.FabricService/GetLink`, with the \
    fields of its path, query and body in one message, and the server has reflection, v1 and v1alpha.\n\n\
    Beside what a service documents, HTTP has these reasons: NO_SUCH_PATH (404); UNKNOWN_METHOD (405): the path takes other \
    methods; NOT_JSON (415); FOREIGN_HOST (403): the replica is called by a name that is none of `hosts`; FOREIGN_ORIGIN (403): a \
    page of another site calls; INSECURE (403): the client is not on this machine, and the replica does not say `insecure`; \
    STREAM_TOO_SLOW (504): the body did not come, or did not end, in time. \
    NOT_GRPC is for paths of gRPC alone.";
const SEVERAL: &str = " May be there several times.";
const LAST_EVENT_ID: &str = "The id of the last event that was heard, as a browser sends it: the stream goes on after it, whatever \
    after_revision says.";
