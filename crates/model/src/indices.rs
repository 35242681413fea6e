//! Which indices the elements of an array have.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// Most indices that may be listed one by one.
pub const LISTED_MAX: u32 = 100_000;

/// Which elements an array has: a range with a step, or a list. In files and requests a text such as `1-100`, `0-90:10` or `1,2,9-12`
/// means the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Indices {
    /// The first index.
    pub first: u32,
    /// No index lies beyond this one.
    pub last: u32,
    /// From one index to the next; 1 if left out.
    #[cfg_attr(feature = "schema", schema(minimum = 1, required = false))]
    pub step: u32,
    /// All of them in ascending order, where they are no range with a step. Who gives a list need not say more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<u32>>, required = false))]
    pub list: Option<Arc<[u32]>>,
}

impl Indices {
    /// A range, whether it has elements or not.
    pub fn range(first: u32, last: u32, step: u32) -> Self {
        Self { first, last, step, list: None }
    }

    pub fn one(index: u32) -> Self {
        Self::range(index, index, 1)
    }

    /// Indices one by one, in any order. The error says what is wrong.
    pub fn listed(mut list: Vec<u32>) -> Result<Self, String> {
        list.sort_unstable();
        list.dedup();
        let (Some(&first), Some(&last)) = (list.first(), list.last()) else {
            return Err("the list of indices is empty".to_owned());
        };
        let step = list.get(1).map_or(1, |second| second - first);
        if list.windows(2).all(|pair| pair[1] - pair[0] == step) {
            return Ok(Self::range(first, last, step));
        }
        if list.len() > LISTED_MAX as usize {
            return Err(format!("a list has at most {LISTED_MAX} indices, this one has {}", list.len()));
        }
        Ok(Self { first, last, step: 1, list: Some(list.into()) })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        match &self.list {
            Some(list) => list.len() as u64,
            None if self.last < self.first || self.step == 0 => 0,
            None => u64::from((self.last - self.first) / self.step) + 1,
        }
    }

    /// The index at a position below their count.
    pub fn index(&self, position: u32) -> u32 {
        match &self.list {
            Some(list) => list[position as usize],
            None => self.first + position * self.step,
        }
    }

    /// The position of an index, if it is one of them.
    pub fn position(&self, index: u32) -> Option<u32> {
        if let Some(list) = &self.list {
            return list.binary_search(&index).ok().map(|position| position as u32);
        }
        let beyond = index.checked_sub(self.first)?;
        let position = beyond.checked_div(self.step)?;
        (index <= self.last && beyond.is_multiple_of(self.step)).then_some(position)
    }

    /// All of them in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..u32::try_from(self.count()).unwrap_or(u32::MAX)).map(|position| self.index(position))
    }

    /// Those from a position on.
    #[must_use]
    pub fn rest(&self, position: u32) -> Self {
        let list = self.list.as_ref().and_then(|list| list.get(position as usize..)).map(Arc::from);
        Self { first: self.index(position), list, ..*self }
    }
}

impl fmt::Display for Indices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, step, list } = self;
        let Some(list) = list else {
            return match (first == last, *step) {
                (true, _) => write!(f, "{first}"),
                (false, 1) => write!(f, "{first}-{last}"),
                (false, step) => write!(f, "{first}-{last}:{step}"),
            };
        };
        let runs = list.chunk_by(|one, next| next - one == 1);
        for (place, run) in runs.enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match run {
                [only] => write!(f, "{comma}{only}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl FromStr for Indices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<Self> = text.split(',').map(part).collect::<Result<_, _>>()?;
        if let [only] = parts.as_slice() {
            return Ok(only.clone());
        }
        if parts.iter().map(Self::count).sum::<u64>() > u64::from(LISTED_MAX) {
            return Err(format!("a list has at most {LISTED_MAX} indices; write one range"));
        }
        Self::listed(parts.iter().flat_map(Self::iter).collect())
    }
}

/// One range of a text.
fn part(text: &str) -> Result<Indices, String> {
    let (range, step) = text.split_once(':').unwrap_or((text, "1"));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |text: &str| text.trim().parse::<u32>();
    let (Ok(first), Ok(last), Ok(step)) = (number(first), number(last), number(step)) else {
        return Err("write indices as FIRST-LAST, FIRST-LAST:STEP, or a list such as 1,2,9-12".to_owned());
    };
    let range = Indices::range(first, last, step);
    match range.count() {
        0 => Err("the last index is below the first, or the step is 0".to_owned()),
        _ => Ok(range),
    }
}

impl<'de> Deserialize<'de> for Indices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            first: Option<u32>,
            last: Option<u32>,
            step: Option<u32>,
            list: Option<Vec<u32>>,
        }
        struct Said;
        impl<'de> Visitor<'de> for Said {
            type Value = Indices;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("indices such as `1-100` or `1,2,9-12`, or first, last and step")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Indices, E> {
                text.parse().map_err(|error| E::custom(format_args!("`{text}` are no indices: {error}")))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Indices, A::Error> {
                let Fields { first, last, step, list } =
                    Fields::deserialize(MapAccessDeserializer::new(map))?;
                let Some(list) = list else {
                    let first = first.ok_or_else(|| de::Error::missing_field("first"))?;
                    let last = last.ok_or_else(|| de::Error::missing_field("last"))?;
                    return Ok(Indices::range(first, last, step.unwrap_or(1)));
                };
                let listed = Indices::listed(list).map_err(de::Error::custom)?;
                let differs = |said: Option<u32>, is: u32| said.is_some_and(|said| said != is);
                if differs(first, listed.first) || differs(last, listed.last) {
                    return Err(de::Error::custom(
                        "`first` and `last` are not those of `list`; leave them out",
                    ));
                }
                Ok(listed)
            }
        }
        deserializer.deserialize_any(Said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(text: &str) -> Indices {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_list_is_a_range_where_it_can_be() {
        for (text, range) in [
            ("1-1000", (1, 1000, 1)),
            ("0-90:10", (0, 90, 10)),
            ("7", (7, 7, 1)),
            ("7,57", (7, 57, 50)),
            ("57,7,7", (7, 57, 50)),
            ("1,5,9", (1, 9, 4)),
            ("4-6, 1-3", (1, 6, 1)),
        ] {
            let (first, last, step) = range;
            assert_eq!(indices(text), Indices::range(first, last, step), "{text}");
        }
        for wrong in ["5-1", "x", "", "1,", "0-9:0", "1-100%0", "0-4000000000,7", "-2"] {
            assert!(wrong.parse::<Indices>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_irregular_list_is_one_array() {
        let list = indices("57,1-3,2,9");
        assert_eq!((list.first, list.last, list.count()), (1, 57, 5));
        assert_eq!(list.iter().collect::<Vec<u32>>(), [1, 2, 3, 9, 57]);
        assert_eq!((list.position(9), list.position(10), list.index(4)), (Some(3), None, 57));
        assert_eq!(list.to_string(), "1-3,9,57");
        assert_eq!(list.rest(3).iter().collect::<Vec<u32>>(), [9, 57]);
        assert_eq!(indices("0-90:10").to_string(), "0-90:10");
        let odd: Vec<u32> = (0..=LISTED_MAX).map(|number| 2 * number + number % 2).collect();
        assert!(Indices::listed(odd).is_err());
    }

    #[test]
    fn they_are_written_and_read() {
        let read = |text: &str| serde_json::from_str::<Indices>(text);
        for text in ["1-100:3", "1,2,9"] {
            let written = serde_json::to_string(&indices(text)).unwrap();
            assert_eq!(read(&written).unwrap(), indices(text), "{written}");
        }
        assert_eq!(read(r#"{"first": 1, "last": 3}"#).unwrap(), indices("1-3"));
        assert_eq!(read(r#"{"list": [9, 1, 2]}"#).unwrap(), indices("1,2,9"));
        assert_eq!(read(r#""1,2,9""#).unwrap(), indices("1,2,9"));
        for wrong in [
            r#"{"first": 1}"#,
            r#"{"list": []}"#,
            r#"{"first": 3, "list": [1, 2, 9]}"#,
            r#"{"lst": [1]}"#,
            "7",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
