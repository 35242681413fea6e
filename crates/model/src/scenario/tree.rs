//! What a file says, as a tree that rows are read from.
//!
//! TOML and JSON become the same tree, and rows are read from nothing else, so the code that reads each type is made once. It also keeps the path of a
//! mistake: whoever hands out a part of the tree puts its name before the error that comes back. (Reading both formats directly, each through a reader that
//! notes paths, was half of what this crate cost to compile.)

use std::fmt;

use serde::de::value::StringDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use toml::de::{DeTable, DeValue};

/// A value of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    Table(Vec<(String, Tree)>),
}

/// What is wrong with a tree, and where.
#[derive(Debug)]
pub(super) struct Wrong {
    /// Steps towards the place, the innermost first.
    steps: Vec<Step>,
    pub(super) message: String,
    /// Whether the last step itself is wrong and not what it leads to.
    pub(super) name: bool,
}

#[derive(Debug)]
enum Step {
    Name(String),
    Index(usize),
}

impl Wrong {
    fn inside(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The place, such as `nodes[2].gpus[0].vram_mib`; empty for the file as a whole.
    pub(super) fn path(&self) -> String {
        let mut path = String::new();
        for step in self.steps.iter().rev() {
            match step {
                Step::Index(index) => path.push_str(&format!("[{index}]")),
                Step::Name(name) if path.is_empty() => path.push_str(name),
                Step::Name(name) => path.push_str(&format!(".{name}")),
            }
        }
        path
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Wrong {}

impl de::Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { steps: Vec::new(), message: message.to_string(), name: false }
    }
}

impl Tree {
    /// A parsed TOML file.
    pub(super) fn of_toml(table: DeTable<'_>) -> Result<Self, Wrong> {
        let row = |(key, value): (toml::Spanned<std::borrow::Cow<'_, str>>, toml::Spanned<DeValue<'_>>)| {
            let key = key.into_inner().into_owned();
            match Self::of_toml_value(value.into_inner()) {
                Ok(tree) => Ok((key, tree)),
                Err(wrong) => Err(wrong.inside(Step::Name(key))),
            }
        };
        table.into_iter().map(row).collect::<Result<_, _>>().map(Self::Table)
    }

    fn of_toml_value(value: DeValue<'_>) -> Result<Self, Wrong> {
        Ok(match value {
            DeValue::String(text) => Self::Text(text.into_owned()),
            DeValue::Boolean(flag) => Self::Bool(flag),
            DeValue::Datetime(instant) => Self::Text(instant.to_string()),
            DeValue::Integer(number) => {
                let (digits, radix) = (number.as_str(), number.radix());
                match (i64::from_str_radix(digits, radix), u64::from_str_radix(digits, radix)) {
                    (Ok(number), _) => Self::Signed(number),
                    (_, Ok(number)) => Self::Unsigned(number),
                    _ => {
                        return Err(Wrong::custom(format!("{number} is larger than any number can be here")));
                    }
                }
            }
            DeValue::Float(number) => Self::Float(
                number.as_str().parse().map_err(|_| Wrong::custom(format!("{number} is no number")))?,
            ),
            DeValue::Array(items) => {
                let item = |(index, item): (usize, toml::Spanned<DeValue<'_>>)| {
                    Self::of_toml_value(item.into_inner()).map_err(|wrong| wrong.inside(Step::Index(index)))
                };
                Self::List(items.into_iter().enumerate().map(item).collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => Self::of_toml(table)?,
        })
    }

    fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Self::Null => Unexpected::Other("null"),
            Self::Bool(flag) => Unexpected::Bool(*flag),
            Self::Signed(number) => Unexpected::Signed(*number),
            Self::Unsigned(number) => Unexpected::Unsigned(*number),
            Self::Float(number) => Unexpected::Float(*number),
            Self::Text(text) => Unexpected::Str(text),
            Self::List(_) => Unexpected::Seq,
            Self::Table(_) => Unexpected::Map,
        }
    }
}

/// JSON becomes a tree as it is read; a name that comes twice in one table is refused, for one of the two would be ignored.
impl<'de> de::Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Tree;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree::Null)
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Tree, E> {
                Ok(Tree::Bool(flag))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
                Ok(Tree::Signed(number))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
                Ok(Tree::Unsigned(number))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
                Ok(Tree::Float(number))
            }

            fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
                Ok(Tree::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<Tree, E> {
                Ok(Tree::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Tree::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut rows: A) -> Result<Tree, A::Error> {
                let (mut table, mut names) = (Vec::new(), std::collections::BTreeSet::new());
                while let Some((name, value)) = rows.next_entry::<String, Tree>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format!("duplicate field `{name}`")));
                    }
                    table.push((name, value));
                }
                Ok(Tree::Table(table))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

impl<'de> Deserializer<'de> for Tree {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Bool(flag) => visitor.visit_bool(flag),
            Self::Signed(number) => visitor.visit_i64(number),
            Self::Unsigned(number) => visitor.visit_u64(number),
            Self::Float(number) => visitor.visit_f64(number),
            Self::Text(text) => visitor.visit_string(text),
            Self::List(items) => {
                let all = items.len();
                let mut items = Items { left: items.into_iter(), next: 0 };
                let value = visitor.visit_seq(&mut items)?;
                match items.left.len() {
                    0 => Ok(value),
                    _ => Err(Wrong::invalid_length(all, &"fewer elements in the list")),
                }
            }
            Self::Table(rows) => visitor.visit_map(Rows { left: rows.into_iter(), value: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self {
            Self::Null => visitor.visit_none(),
            some => visitor.visit_some(some),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match self {
            Self::Text(name) => visitor.visit_enum(Variant { name, content: None }),
            Self::Table(mut rows) if rows.len() == 1 => match rows.pop() {
                Some((name, content)) => visitor.visit_enum(Variant { name, content: Some(content) }),
                None => Err(Wrong::custom("expected a word")),
            },
            Self::Table(_) => Err(Wrong::invalid_value(Unexpected::Map, &"a table with a single name")),
            other => Err(Wrong::invalid_type(other.unexpected(), &"a word or a table")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match self {
            // Fields have names: a list would be taken by position.
            Self::List(_) => Err(Wrong::invalid_type(Unexpected::Seq, &"a table of fields")),
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct
        map identifier
    }
}

struct Items {
    left: std::vec::IntoIter<Tree>,
    next: usize,
}

impl<'de> SeqAccess<'de> for &mut Items {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        let Some(item) = self.left.next() else { return Ok(None) };
        self.next += 1;
        seed.deserialize(item).map(Some).map_err(|wrong| wrong.inside(Step::Index(self.next - 1)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

struct Rows {
    left: std::vec::IntoIter<(String, Tree)>,
    /// What belongs to the name that was read last.
    value: Option<(String, Tree)>,
}

impl<'de> MapAccess<'de> for Rows {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        let Some((name, value)) = self.left.next() else { return Ok(None) };
        let key: Result<_, Wrong> = seed.deserialize(StringDeserializer::new(name.clone()));
        let key = key.map_err(|wrong| Wrong { name: true, ..wrong.inside(Step::Name(name.clone())) })?;
        self.value = Some((name, value));
        Ok(Some(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        let (name, value) = self.value.take().ok_or_else(|| Wrong::custom("a value without a name"))?;
        seed.deserialize(value).map_err(|wrong| wrong.inside(Step::Name(name)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

struct Variant {
    name: String,
    content: Option<Tree>,
}

impl<'de> EnumAccess<'de> for Variant {
    type Error = Wrong;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Wrong> {
        Ok((seed.deserialize(StringDeserializer::<Wrong>::new(self.name.clone()))?, self))
    }
}

impl Variant {
    fn content<T>(self, read: impl FnOnce(Tree) -> Result<T, Wrong>) -> Result<T, Wrong> {
        let content = self.content.ok_or_else(|| Wrong::custom(format!("`{}` wants a value", self.name)))?;
        read(content).map_err(|wrong| wrong.inside(Step::Name(self.name)))
    }
}

impl<'de> VariantAccess<'de> for Variant {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        match self.content {
            None | Some(Tree::Null) => Ok(()),
            Some(_) => Err(Wrong::custom(format!("`{}` has no value", self.name))),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Wrong> {
        self.content(|content| seed.deserialize(content))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.content(|content| content.deserialize_any(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.content(|content| content.deserialize_any(visitor))
    }
}
