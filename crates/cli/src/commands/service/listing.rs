//! Whole lists of the server, whatever the size of its pages.

use landfall_api::Paged;
use landfall_client::{Client, ClientError, with_query};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A list as the server gives it: with pages where it may be long, plain where it is short.
#[derive(Deserialize)]
#[serde(untagged)]
enum Listed<T> {
    Plain(Vec<T>),
    Pages(Paged<T>),
}

/// Everything below a path.
pub(crate) async fn all<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    params: &[(&str, Option<&str>)],
) -> Result<Vec<T>, ClientError> {
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut params = params.to_vec();
        params.push(("cursor", cursor.as_deref()));
        match client.get(&with_query(path, &params)).await? {
            Listed::Plain(found) => return Ok(found),
            Listed::Pages(page) => {
                items.extend(page.items);
                cursor = page.next;
            }
        }
        if cursor.is_none() {
            return Ok(items);
        }
    }
}
