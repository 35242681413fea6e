//! What a changed OpenAPI document breaks for programs that were written for the one before.
//!
//! Both documents are walked side by side, references followed. What a client sends may become wider, what it reads may become
//! narrower; anything else breaks it. Places are named by the schema (`JobBody.needs`) where it has a name, so that a change
//! is told once however many routes use it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

/// What differs, in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub breaking: BTreeSet<String>,
    pub others: BTreeSet<String>,
}

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];
/// Bounds of values; a request that was within the old ones may not be within new ones.
const BOUNDS: [&str; 6] = ["minimum", "maximum", "pattern", "minLength", "maxLength", "maxItems"];

/// Compares two documents.
pub fn changes(old: &Value, new: &Value) -> Changes {
    let mut walk = Walk { old, new, seen: BTreeSet::new(), found: Changes::default() };
    walk.paths();
    walk.found
}

/// Fails if the document differs from the one that is checked in, or writes it. What breaks clients must be listed in the notes.
pub fn keep(file: &str, notes: &str, new: &Value, write: bool) -> Result<(), String> {
    let read = |file: &str| std::fs::read_to_string(super::root().join(file)).unwrap_or_default();
    let old: Value = serde_json::from_str(&read(file)).unwrap_or(Value::Null);
    let changes = changes(&old, new);
    let lines: BTreeSet<String> = read(notes).lines().map(|line| line.trim().to_owned()).collect();
    let unsaid: Vec<String> = changes.breaking.iter().map(|change| format!("- {change}")).collect();
    let unsaid: Vec<&str> = unsaid.iter().map(String::as_str).filter(|line| !lines.contains(*line)).collect();
    if !unsaid.is_empty() {
        return Err(format!(
            "the API breaks clients. Undo it, or add these lines to {notes}, with the reason above them, and run `cargo xtask generate`:\n{}",
            unsaid.join("\n")
        ));
    }
    super::page(file, &written(new), write).map_err(|error| {
        let listed = |title: &str, of: &BTreeSet<String>| {
            of.iter().fold(String::new(), |text, change| format!("{text}\n{title}: {change}"))
        };
        format!("{error}{}{}", listed("breaking", &changes.breaking), listed("other", &changes.others))
    })
}

/// Which way a value goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// From the client to the server.
    Sent,
    /// From the server to the client.
    Answered,
}

struct Walk<'a> {
    old: &'a Value,
    new: &'a Value,
    /// Pairs of named schemas that were compared, which also ends recursion.
    seen: BTreeSet<(String, String, Way)>,
    found: Changes,
}

impl<'a> Walk<'a> {
    fn breaks(&mut self, what: String) {
        self.found.breaking.insert(what);
    }

    fn differs(&mut self, what: String) {
        self.found.others.insert(what);
    }

    fn paths(&mut self) {
        let (before, after) = (operations(self.old), operations(self.new));
        for (name, new) in &after {
            match before.get(name) {
                Some(old) => self.operation(name, old, new),
                None => self.differs(format!("{name} is new")),
            }
        }
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            self.breaks(format!("{name} is gone"));
        }
    }

    fn operation(&mut self, name: &str, old: &'a Value, new: &'a Value) {
        self.parameters(name, old, new);
        let (before, after) = (&old["requestBody"], &new["requestBody"]);
        match (before.is_object(), after.is_object()) {
            (true, false) => self.breaks(format!("{name}: takes no body any more")),
            (false, true) if is_true(&after["required"]) => {
                self.breaks(format!("{name}: must have a body now"));
            }
            (false, true) => self.differs(format!("{name}: may have a body now")),
            (true, true) => {
                if is_true(&after["required"]) && !is_true(&before["required"]) {
                    self.breaks(format!("{name}: must have a body now"));
                }
                self.content(&format!("{name}, body"), before, after, Way::Sent);
            }
            (false, false) => {}
        }
        let (before, after) = (entries(&old["responses"]), entries(&new["responses"]));
        for (status, new) in &after {
            match before.get(status) {
                Some(old) => self.content(&format!("{name}, answer {status}"), old, new, Way::Answered),
                None => self.differs(format!("{name}: may answer {status} now")),
            }
        }
        for status in before.keys().filter(|status| !after.contains_key(*status)) {
            self.breaks(format!("{name}: answer {status} is gone"));
        }
    }

    fn parameters(&mut self, name: &str, old: &'a Value, new: &'a Value) {
        let of = |operation: &'a Value| -> BTreeMap<String, &'a Value> {
            let all = operation["parameters"].as_array().into_iter().flatten();
            all.map(|one| (format!("{} parameter `{}`", text(&one["in"]), text(&one["name"])), one)).collect()
        };
        let (before, after) = (of(old), of(new));
        for (what, new) in &after {
            let place = format!("{name}, {what}");
            match before.get(what) {
                Some(old) => {
                    if is_true(&new["required"]) && !is_true(&old["required"]) {
                        self.breaks(format!("{place}: must be given now"));
                    }
                    self.schema(&place, &old["schema"], &new["schema"], Way::Sent);
                }
                None if is_true(&new["required"]) => {
                    self.breaks(format!("{place}: is new and must be given"));
                }
                None => self.differs(format!("{place}: is new")),
            }
        }
        for what in before.keys().filter(|what| !after.contains_key(*what)) {
            self.breaks(format!("{name}, {what}: is gone"));
        }
    }

    fn content(&mut self, place: &str, old: &'a Value, new: &'a Value, way: Way) {
        let (before, after) = (entries(&old["content"]), entries(&new["content"]));
        for (kind, old) in &before {
            match after.get(kind) {
                Some(new) => self.schema(place, &old["schema"], &new["schema"], way),
                None => self.breaks(format!("{place}: {kind} is gone")),
            }
        }
        for kind in after.keys().filter(|kind| !before.contains_key(*kind)) {
            self.differs(format!("{place}: {kind} is new"));
        }
    }

    fn schema(&mut self, place: &str, old: &'a Value, new: &'a Value, way: Way) {
        let ((old, was_null), (new, is_null)) = (bare(old), bare(new));
        match (way, was_null, is_null) {
            (Way::Sent, true, false) => self.breaks(format!("{place} (sent): may not be null any more")),
            (Way::Answered, false, true) => self.breaks(format!("{place} (answered): may be null now")),
            (_, true, false) => self.differs(format!("{place} (answered): is never null now")),
            (_, false, true) => self.differs(format!("{place} (sent): may be null now")),
            _ => {}
        }
        let mut place = place.to_owned();
        if let Some(after) = name_of(new) {
            // The same pair of named schemas has the same differences wherever it is used.
            let before = name_of(old).unwrap_or_default();
            if !before.is_empty() && !self.seen.insert((before.to_owned(), after.to_owned(), way)) {
                return;
            }
            after.clone_into(&mut place);
        }
        let (old, new) = (Flat::of(self.old, old), Flat::of(self.new, new));
        self.flat(&place, &old, &new, way);
    }

    fn flat(&mut self, place: &str, old: &Flat<'a>, new: &Flat<'a>, way: Way) {
        // What is sent must be within what is taken, what is answered within what is understood.
        let (word, inner, outer) = match way {
            Way::Sent => ("sent", &old.kinds, &new.kinds),
            Way::Answered => ("answered", &new.kinds, &old.kinds),
        };
        if old.kinds != new.kinds {
            let change = format!("{place} ({word}): type {} became {}", kinds(&old.kinds), kinds(&new.kinds));
            // No type means any.
            let fits = outer.is_empty() || (!inner.is_empty() && inner.is_subset(outer));
            if fits { self.differs(change) } else { self.breaks(change) }
        }
        for value in old.values.difference(&new.values) {
            self.breaks(format!("{place} ({word}): value `{value}` is gone"));
        }
        for value in new.values.difference(&old.values) {
            let change = format!("{place} ({word}): value `{value}` is new");
            // What could be anything before is bound to a list now.
            if old.values.is_empty() && way == Way::Sent { self.breaks(change) } else { self.differs(change) }
        }
        for (bound, value) in &new.bounds {
            match old.bounds.get(bound) {
                Some(before) if before == value => {}
                _ if way == Way::Sent => self.breaks(format!("{place} ({word}): {bound} is {value} now")),
                _ => self.differs(format!("{place} ({word}): {bound} is {value} now")),
            }
        }
        for (name, field) in &old.fields {
            let place = format!("{place}.{name}");
            match new.fields.get(name) {
                Some(after) => self.schema(&place, field, after, way),
                None => self.breaks(format!("{place} ({word}) is gone")),
            }
        }
        for name in new.fields.keys().filter(|name| !old.fields.contains_key(*name)) {
            let place = format!("{place}.{name}");
            if way == Way::Sent && new.required.contains(name) {
                self.breaks(format!("{place} ({word}) is new and must be given"));
            } else {
                self.differs(format!("{place} ({word}) is new"));
            }
        }
        for name in old.fields.keys().filter(|name| new.fields.contains_key(*name)) {
            match (way, old.required.contains(name), new.required.contains(name)) {
                (Way::Sent, false, true) => self.breaks(format!("{place}.{name} ({word}) must be given now")),
                (Way::Answered, true, false) => {
                    self.breaks(format!("{place}.{name} ({word}) may be absent now"));
                }
                (_, true, false) => self.differs(format!("{place}.{name} ({word}) may be left out now")),
                (_, false, true) => self.differs(format!("{place}.{name} ({word}) is always there now")),
                _ => {}
            }
        }
        for (label, before, after) in [("[]", old.items, new.items), (".*", old.others, new.others)] {
            if let (Some(before), Some(after)) = (before, after) {
                self.schema(&format!("{place}{label}"), before, after, way);
            }
        }
        for (name, before) in &old.variants {
            match new.variants.get(name) {
                Some(after) => self.schema(&format!("{place}<{name}>"), before, after, way),
                None => self.breaks(format!("{place} ({word}): variant {name} is gone")),
            }
        }
        for name in new.variants.keys().filter(|name| !old.variants.contains_key(*name)) {
            self.differs(format!("{place} ({word}): variant {name} is new"));
        }
    }
}

/// A schema with its references followed and its parts put together.
#[derive(Default)]
struct Flat<'a> {
    kinds: BTreeSet<String>,
    values: BTreeSet<String>,
    bounds: BTreeMap<&'static str, &'a Value>,
    fields: BTreeMap<String, &'a Value>,
    required: BTreeSet<String>,
    items: Option<&'a Value>,
    others: Option<&'a Value>,
    variants: BTreeMap<String, &'a Value>,
}

impl<'a> Flat<'a> {
    fn of(document: &'a Value, schema: &'a Value) -> Self {
        let mut flat = Self::default();
        flat.add(document, schema, 0);
        flat
    }

    fn add(&mut self, document: &'a Value, schema: &'a Value, depth: usize) {
        // A schema that is made of itself says nothing more.
        if depth > 16 {
            return;
        }
        if let Some(name) = name_of(schema) {
            return self.add(document, &document["components"]["schemas"][name], depth + 1);
        }
        let format = schema["format"].as_str();
        let kinds = types(schema).filter(|kind| *kind != "null").map(|kind| match format {
            Some(format) => format!("{kind} ({format})"),
            None => kind.to_owned(),
        });
        self.kinds.extend(kinds);
        let values = schema["enum"].as_array().into_iter().flatten().chain(schema.get("const"));
        self.values.extend(values.map(shown));
        for bound in BOUNDS {
            if let Some(value) = schema.get(bound) {
                self.bounds.insert(bound, value);
            }
        }
        self.fields.extend(entries(&schema["properties"]));
        self.required.extend(schema["required"].as_array().into_iter().flatten().map(shown));
        self.items = schema.get("items").or(self.items);
        self.others = schema.get("additionalProperties").filter(|of| of.is_object()).or(self.others);
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.add(document, part, depth + 1);
        }
        for kind in ["oneOf", "anyOf"] {
            for one in schema[kind].as_array().into_iter().flatten() {
                // A choice among words is a list of words, however it is written.
                if one["type"] == "string" || one["type"] == "null" {
                    self.add(document, one, depth + 1);
                } else {
                    self.variants.insert(variant(one), one);
                }
            }
        }
    }
}

/// A schema without what says that null will do, too, and whether something did.
fn bare(mut schema: &Value) -> (&Value, bool) {
    let mut null = types(schema).any(|kind| kind == "null");
    for kind in ["oneOf", "anyOf", "allOf"] {
        let Some(all) = schema[kind].as_array().filter(|_| schema.get("properties").is_none()) else {
            continue;
        };
        let mut real = all.iter().filter(|one| one["type"] != "null");
        null |= all.iter().any(|one| one["type"] == "null");
        if let (Some(one), None) = (real.next(), real.next()) {
            let (inner, also) = bare(one);
            (schema, null) = (inner, null || also);
            break;
        }
    }
    (schema, null)
}

fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let several = schema["type"].as_array().into_iter().flatten().filter_map(Value::as_str);
    several.chain(schema["type"].as_str())
}

/// What tells a variant from the others: its schema's name, its tag, or its fields.
fn variant(schema: &Value) -> String {
    if let Some(name) = name_of(schema).or(schema["title"].as_str()) {
        return format!("`{name}`");
    }
    let tag = entries(&schema["properties"]).into_iter().find_map(|(name, of)| {
        let values = of["enum"].as_array().filter(|values| values.len() == 1)?;
        Some(format!("`{name}: {}`", shown(&values[0])))
    });
    let parts = schema["allOf"].as_array().into_iter().flatten().map(variant);
    tag.or_else(|| parts.reduce(|all, one| format!("{all}+{one}"))).unwrap_or_else(|| {
        let fields: Vec<String> = entries(&schema["properties"]).into_keys().collect();
        format!("`{}`", if fields.is_empty() { text(&schema["type"]).to_owned() } else { fields.join(",") })
    })
}

fn operations(document: &Value) -> BTreeMap<String, &Value> {
    let paths = entries(&document["paths"]).into_iter();
    let all = paths.flat_map(|(path, item)| {
        METHODS.iter().map(move |method| (format!("{} {path}", method.to_uppercase()), &item[*method]))
    });
    all.filter(|(_, operation)| operation.is_object()).collect()
}

fn entries(value: &Value) -> BTreeMap<String, &Value> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value)).collect()
}

fn name_of(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str().and_then(|path| path.rsplit('/').next())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn is_true(value: &Value) -> bool {
    value.as_bool() == Some(true)
}

fn kinds(of: &BTreeSet<String>) -> String {
    if of.is_empty() { "any".to_owned() } else { of.iter().cloned().collect::<Vec<_>>().join(" or ") }
}

/// A document as text: keys in order, one line for each operation and each schema, so that a difference of files is short.
pub fn written(value: &Value) -> String {
    let mut text = String::new();
    lay_out(value, 0, &mut text);
    text.push('\n');
    text
}

fn lay_out(value: &Value, indent: usize, text: &mut String) {
    let line = in_one_line(value);
    let (open, close, entries): (char, char, Vec<(String, &Value)>) = match value {
        _ if indent > 2 => return text.push_str(&line),
        Value::Object(map) if !map.is_empty() => {
            let sorted: BTreeMap<_, _> = map.iter().collect();
            (
                '{',
                '}',
                sorted
                    .into_iter()
                    .map(|(key, value)| (format!("{}: ", Value::from(key.as_str())), value))
                    .collect(),
            )
        }
        Value::Array(items) if !items.is_empty() => {
            ('[', ']', items.iter().map(|item| (String::new(), item)).collect())
        }
        _ => return text.push_str(&line),
    };
    let last = entries.len() - 1;
    text.push(open);
    for (place, (key, value)) in entries.into_iter().enumerate() {
        let _ = write!(text, "\n{:1$}{key}", "", indent + 1);
        lay_out(value, indent + 1, text);
        text.push_str(if place == last { "" } else { "," });
    }
    let _ = write!(text, "\n{:1$}{close}", "", indent);
}

fn in_one_line(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<_, _> = map.iter().collect();
            let all = sorted
                .into_iter()
                .map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), in_one_line(value)));
            format!("{{{}}}", all.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(in_one_line).collect::<Vec<_>>().join(", ")),
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A document with one route whose body and answer have this schema, named `Thing`.
    fn document(schema: Value) -> Value {
        let content = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Thing" } } });
        json!({
            "paths": { "/things": { "post": {
                "parameters": [{ "in": "query", "name": "limit", "required": false, "schema": { "type": "integer" } }],
                "requestBody": { "required": true, "content": content },
                "responses": { "200": { "content": content }, "404": {} },
            } } },
            "components": { "schemas": { "Thing": schema } },
        })
    }

    fn thing() -> Value {
        json!({ "type": "object", "required": ["id"], "properties": {
            "id": { "type": "string" },
            "size": { "type": ["integer", "null"], "minimum": 0 },
            "state": { "oneOf": [{ "type": "string", "enum": ["on"] }, { "type": "string", "enum": ["off"] }] },
            "parent": { "oneOf": [{ "type": "null" }, { "$ref": "#/components/schemas/Thing" }] },
        } })
    }

    fn breaking(old: &Value, new: &Value) -> Vec<String> {
        changes(old, new).breaking.into_iter().collect()
    }

    #[test]
    fn what_breaks_is_named() {
        let set = |pointer: &str, value: Value| {
            let mut changed = document(thing());
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            let parent = changed.pointer_mut(parent).unwrap();
            match value {
                Value::Null => drop(parent.as_object_mut().unwrap().remove(&key.replace("~1", "/"))),
                value => parent[key] = value,
            }
            changed
        };
        let of_thing = "/components/schemas/Thing";
        let route = "/paths/~1things/post";
        for (pointer, value, expected) in [
            ("/paths/~1things".to_owned(), Value::Null, vec!["POST /things is gone"]),
            (format!("{route}/responses/404"), Value::Null, vec!["POST /things: answer 404 is gone"]),
            (format!("{route}/requestBody"), Value::Null, vec!["POST /things: takes no body any more"]),
            (
                format!("{route}/parameters"),
                json!([]),
                vec!["POST /things, query parameter `limit`: is gone"],
            ),
            (
                format!("{route}/parameters"),
                json!([{ "in": "query", "name": "limit", "required": true, "schema": { "type": "string" } }]),
                vec![
                    "POST /things, query parameter `limit` (sent): type integer became string",
                    "POST /things, query parameter `limit`: must be given now",
                ],
            ),
            (
                format!("{of_thing}/properties/size"),
                Value::Null,
                vec!["Thing.size (answered) is gone", "Thing.size (sent) is gone"],
            ),
            (
                format!("{of_thing}/properties/size/type"),
                json!("integer"),
                vec!["Thing.size (sent): may not be null any more"],
            ),
            (
                format!("{of_thing}/properties/id/type"),
                json!(["string", "null"]),
                vec!["Thing.id (answered): may be null now"],
            ),
            (
                format!("{of_thing}/properties/size/minimum"),
                json!(1),
                vec!["Thing.size (sent): minimum is 1 now"],
            ),
            (
                format!("{of_thing}/required"),
                json!(["id", "size"]),
                vec!["Thing.size (sent) must be given now"],
            ),
            (format!("{of_thing}/required"), json!([]), vec!["Thing.id (answered) may be absent now"]),
            (
                format!("{of_thing}/properties/state"),
                json!({ "type": "string", "enum": ["on", "half"] }),
                vec![
                    "Thing.state (answered): value `off` is gone",
                    "Thing.state (sent): value `off` is gone",
                ],
            ),
        ] {
            assert_eq!(
                breaking(&document(thing()), &set(&pointer, value.clone())),
                expected,
                "{pointer} {value}"
            );
        }
    }

    #[test]
    fn what_is_added_breaks_nothing_unless_it_must_be_given() {
        let mut more = document(thing());
        more["paths"]["/others"] = json!({ "get": { "responses": {} } });
        more["components"]["schemas"]["Thing"]["properties"]["note"] = json!({ "type": "string" });
        more["paths"]["/things"]["post"]["responses"]["409"] = json!({});
        let found = changes(&document(thing()), &more);
        assert_eq!(found.breaking, BTreeSet::new());
        assert_eq!(
            found.others.into_iter().collect::<Vec<_>>(),
            [
                "GET /others is new",
                "POST /things: may answer 409 now",
                "Thing.note (answered) is new",
                "Thing.note (sent) is new"
            ]
        );
        more["components"]["schemas"]["Thing"]["required"] = json!(["id", "note"]);
        assert_eq!(breaking(&document(thing()), &more), ["Thing.note (sent) is new and must be given"]);
    }

    #[test]
    fn how_a_schema_is_written_does_not_matter() {
        let mut same = document(thing());
        let properties = &mut same["components"]["schemas"]["Thing"]["properties"];
        properties["state"] =
            json!({ "type": "string", "enum": ["off", "on"], "description": "Whether it is on." });
        properties["id"] = json!({ "allOf": [{ "type": "string" }] });
        assert_eq!(changes(&document(thing()), &same), Changes::default());
        // A schema that moves to a name of its own is the same, too.
        same["components"]["schemas"]["State"] = json!({ "type": "string", "enum": ["off", "on"] });
        same["components"]["schemas"]["Thing"]["properties"]["state"] =
            json!({ "$ref": "#/components/schemas/State" });
        assert_eq!(changes(&document(thing()), &same), Changes::default());
    }

    #[test]
    fn variants_are_told_apart_by_their_tag() {
        let one = |tag: &str, field: &str| {
            json!({ "type": "object", "required": ["kind", field], "properties": {
                "kind": { "type": "string", "enum": [tag] }, field: { "type": "string" } } })
        };
        let old = document(json!({ "oneOf": [one("a", "x"), one("b", "y")] }));
        let new = document(json!({ "oneOf": [one("b", "z"), one("c", "x")] }));
        let found = breaking(&old, &new);
        assert!(found.contains(&"Thing (sent): variant `kind: a` is gone".to_owned()), "{found:?}");
        assert!(found.contains(&"Thing<`kind: b`>.y (answered) is gone".to_owned()), "{found:?}");
        assert!(
            found.contains(&"Thing<`kind: b`>.z (sent) is new and must be given".to_owned()),
            "{found:?}"
        );
    }

    #[test]
    fn a_document_is_written_in_one_way_and_can_be_read_back() {
        let text = written(&document(thing()));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document(thing()));
        assert!(text.contains("\n  \"/things\": {\n"), "{text}");
    }
}
