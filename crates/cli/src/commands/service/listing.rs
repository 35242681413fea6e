//! Whole lists of the server, whatever the size of its pages, and what is taken out of them.

use landfall_api::Paged;
use landfall_api::answer::Acted;
use landfall_client::{Client, ClientError, segment, with_query};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Page};
use crate::error::CliError;
use crate::render::text::clean;
use crate::reply::Reply;
use crate::service::ConnectArgs;

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

#[derive(Serialize)]
struct Deleted {
    deleted: String,
}

/// Deletes one thing of a list.
pub(crate) fn delete(
    connect: &ConnectArgs,
    list: &str,
    id: &str,
    schema: &'static str,
) -> Result<Box<dyn Answer>, CliError> {
    connect.ask(async |client| {
        let _: Acted = client.delete(&format!("{list}/{}", segment(id))).await?;
        let page = |data: &Deleted, _: Page| format!("deleted {}\n", clean(&data.deleted));
        Ok(Reply::new(schema, Deleted { deleted: id.to_owned() }, page).boxed())
    })
}
