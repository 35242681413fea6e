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

impl Way {
    fn word(self) -> &'static str {
        if self == Self::Sent { "sent" } else { "answered" }
    }
}

struct Walk<'a> {
    old: &'a Value,
    new: &'a Value,
    /// Pairs of named schemas that were compared, which also ends recursion.
    seen: BTreeSet<(String, String, Way)>,
    found: Changes,
}

type Named<'a> = BTreeMap<String, &'a Value>;

impl<'a> Walk<'a> {
    fn note(&mut self, breaks: bool, what: String) {
        if breaks { &mut self.found.breaking } else { &mut self.found.others }.insert(what);
    }

    /// What is on both sides. What is gone breaks clients; what is new does if it must be given.
    fn both(
        &mut self,
        old: &Named<'a>,
        new: &Named<'a>,
        place: impl Fn(&str) -> String,
        must: impl Fn(&str, &Value) -> bool,
    ) -> Vec<(String, &'a Value, &'a Value)> {
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            self.note(true, format!("{} is gone", place(name)));
        }
        for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
            let must = must(name, value);
            self.note(
                must,
                format!("{} is new{}", place(name), if must { " and must be given" } else { "" }),
            );
        }
        let both = old.iter().filter_map(|(name, before)| Some((name.clone(), *before, *new.get(name)?)));
        both.collect()
    }

    fn paths(&mut self) {
        let (old, new) = (operations(self.old), operations(self.new));
        for (name, old, new) in self.both(&old, &new, str::to_owned, |_, _| false) {
            self.operation(&name, old, new);
        }
    }

    fn operation(&mut self, name: &str, old: &'a Value, new: &'a Value) {
        let of = |operation: &'a Value| -> Named<'a> {
            let all = operation["parameters"].as_array().into_iter().flatten();
            all.map(|one| (format!("{} parameter `{}`", text(&one["in"]), text(&one["name"])), one)).collect()
        };
        let required = |_: &str, value: &Value| is_true(&value["required"]);
        let place = |what: &str| format!("{name}, {what}:");
        for (what, old, new) in self.both(&of(old), &of(new), place, required) {
            if is_true(&new["required"]) && !is_true(&old["required"]) {
                self.note(true, format!("{name}, {what}: must be given now"));
            }
            self.schema(&format!("{name}, {what}"), &old["schema"], &new["schema"], Way::Sent);
        }
        let (before, after) = (&old["requestBody"], &new["requestBody"]);
        if before.is_object() && !after.is_object() {
            self.note(true, format!("{name}: takes no body any more"));
        } else if is_true(&after["required"]) && !is_true(&before["required"]) {
            self.note(true, format!("{name}: must have a body now"));
        } else if after.is_object() && !before.is_object() {
            self.note(false, format!("{name}: may have a body now"));
        }
        if before.is_object() && after.is_object() {
            self.content(&format!("{name}, body"), before, after, Way::Sent);
        }
        let (before, after) = (entries(&old["responses"]), entries(&new["responses"]));
        let place = |status: &str| format!("{name}: answer {status}");
        for (status, old, new) in self.both(&before, &after, place, |_, _| false) {
            self.content(&format!("{name}, answer {status}"), old, new, Way::Answered);
        }
    }

    fn content(&mut self, place: &str, old: &'a Value, new: &'a Value, way: Way) {
        let (before, after) = (entries(&old["content"]), entries(&new["content"]));
        for (_, old, new) in self.both(&before, &after, |kind| format!("{place}: {kind}"), |_, _| false) {
            self.schema(place, &old["schema"], &new["schema"], way);
        }
    }

    fn schema(&mut self, place: &str, old: &'a Value, new: &'a Value, way: Way) {
        let ((old, was_null), (new, is_null)) = (bare(old), bare(new));
        let word = way.word();
        match (way, was_null, is_null) {
            (Way::Sent, true, false) => {
                self.note(true, format!("{place} ({word}): may not be null any more"));
            }
            (_, true, false) => self.note(false, format!("{place} ({word}): is never null now")),
            (_, false, true) => self.note(way == Way::Answered, format!("{place} ({word}): may be null now")),
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
        let (sent, word) = (way == Way::Sent, way.word());
        // What is sent must be within what is taken, what is answered within what is understood.
        let (inner, outer) = if sent { (&old.kinds, &new.kinds) } else { (&new.kinds, &old.kinds) };
        if old.kinds != new.kinds {
            let change = format!("{place} ({word}): type {} became {}", kinds(&old.kinds), kinds(&new.kinds));
            // No type means any.
            let fits = outer.is_empty() || (!inner.is_empty() && inner.is_subset(outer));
            self.note(!fits, change);
        }
        for value in old.values.difference(&new.values) {
            self.note(true, format!("{place} ({word}): value `{value}` is gone"));
        }
        for value in new.values.difference(&old.values) {
            // What could be anything before is bound to a list now.
            let bound = old.values.is_empty() && sent;
            self.note(bound, format!("{place} ({word}): value `{value}` is new"));
        }
        for (bound, value) in new.bounds.iter().filter(|(bound, value)| old.bounds.get(*bound) != Some(value))
        {
            self.note(sent, format!("{place} ({word}): {bound} is {value} now"));
        }
        let field = |name: &str| format!("{place}.{name} ({word})");
        let must = |name: &str, _: &Value| sent && new.required.contains(name);
        for (name, before, after) in self.both(&old.fields, &new.fields, field, must) {
            self.schema(&format!("{place}.{name}"), before, after, way);
            match (sent, old.required.contains(&name), new.required.contains(&name)) {
                (true, false, true) => self.note(true, format!("{} must be given now", field(&name))),
                (false, true, false) => self.note(true, format!("{} may be absent now", field(&name))),
                (_, true, false) => self.note(false, format!("{} may be left out now", field(&name))),
                (_, false, true) => self.note(false, format!("{} is always there now", field(&name))),
                _ => {}
            }
        }
        for (label, before, after) in [("[]", old.items, new.items), (".*", old.others, new.others)] {
            if let (Some(before), Some(after)) = (before, after) {
                self.schema(&format!("{place}{label}"), before, after, way);
            }
        }
        let variant = |name: &str| format!("{place} ({word}): variant {name}");
        for (name, before, after) in self.both(&old.variants, &new.variants, variant, |_, _| false) {
            self.schema(&format!("{place}<{name}>"), before, after, way);
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
    let (open, close, parts): (char, char, Vec<(String, &Value)>) = match value {
        Value::Object(_) => {
            let key = |(key, value): (String, _)| (format!("{}: ", Value::from(key)), value);
            ('{', '}', entries(value).into_iter().map(key).collect())
        }
        Value::Array(items) => ('[', ']', items.iter().map(|item| (String::new(), item)).collect()),
        plain => return text.push_str(&plain.to_string()),
    };
    let lines = indent <= 2 && !parts.is_empty();
    text.push(open);
    for (place, (key, value)) in parts.into_iter().enumerate() {
        match (lines, place) {
            (true, 0) => text.push('\n'),
            (true, _) => text.push_str(",\n"),
            (false, 0) => {}
            (false, _) => text.push_str(", "),
        }
        let _ = write!(text, "{:1$}{key}", "", if lines { indent + 1 } else { 0 });
        lay_out(value, indent + 1, text);
    }
    if lines {
        let _ = write!(text, "\n{:1$}", "", indent);
    }
    text.push(close);
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
        let required =
            json!([{ "in": "query", "name": "limit", "required": true, "schema": { "type": "string" } }]);
        let half = json!({ "type": "string", "enum": ["on", "half"] });
        let (post, thing_is) = ("/paths/~1things/post", "/components/schemas/Thing");
        let cases: [(&str, &str, Value, &[&str]); 12] = [
            ("/paths", "~1things", Value::Null, &["POST /things is gone"]),
            (post, "responses/404", Value::Null, &["POST /things: answer 404 is gone"]),
            (post, "requestBody", Value::Null, &["POST /things: takes no body any more"]),
            (post, "parameters", json!([]), &["POST /things, query parameter `limit`: is gone"]),
            (
                post,
                "parameters",
                required,
                &[
                    "POST /things, query parameter `limit` (sent): type integer became string",
                    "POST /things, query parameter `limit`: must be given now",
                ],
            ),
            (
                thing_is,
                "properties/size",
                Value::Null,
                &["Thing.size (answered) is gone", "Thing.size (sent) is gone"],
            ),
            (
                thing_is,
                "properties/size/type",
                json!("integer"),
                &["Thing.size (sent): may not be null any more"],
            ),
            (
                thing_is,
                "properties/id/type",
                json!(["string", "null"]),
                &["Thing.id (answered): may be null now"],
            ),
            (thing_is, "properties/size/minimum", json!(1), &["Thing.size (sent): minimum is 1 now"]),
            (thing_is, "required", json!(["id", "size"]), &["Thing.size (sent) must be given now"]),
            (thing_is, "required", json!([]), &["Thing.id (answered) may be absent now"]),
            (
                thing_is,
                "properties/state",
                half,
                &["Thing.state (answered): value `off` is gone", "Thing.state (sent): value `off` is gone"],
            ),
        ];
        for (under, pointer, value, expected) in cases {
            let changed = set(&format!("{under}/{pointer}"), value);
            assert_eq!(breaking(&document(thing()), &changed), expected, "{under}/{pointer}");
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
                "POST /things: answer 409 is new",
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
