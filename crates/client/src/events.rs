//! A stream of server-sent events.

use crate::error::ClientError;
use crate::lines::Lines;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerEvent {
    /// Its number; give it as `after` to go on behind it.
    pub id: Option<String>,
    pub kind: Option<String>,
    pub data: String,
}

/// A stream of server-sent events. Dropping it ends the request.
pub struct Events {
    lines: Lines,
}

impl Events {
    pub(crate) fn new(lines: Lines) -> Self {
        Self { lines }
    }

    /// The next event; `None` when the server ends the stream.
    pub async fn next(&mut self) -> Result<Option<ServerEvent>, ClientError> {
        let mut event = ServerEvent::default();
        let mut has_data = false;
        while let Some(line) = self.lines.next().await? {
            if line.is_empty() {
                if has_data {
                    return Ok(Some(event));
                }
                event = ServerEvent::default();
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => event.id = Some(value.to_owned()),
                "event" => event.kind = Some(value.to_owned()),
                "data" => {
                    if has_data {
                        event.data.push('\n');
                    }
                    event.data.push_str(value);
                    has_data = true;
                }
                // Comments keep the line alive; other fields are for browsers.
                _ => {}
            }
        }
        Ok(has_data.then_some(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_have_number_kind_and_data() {
        let text = ": hello\n\nid: 7\nevent: ended\ndata: {\"job\":\ndata: 3}\n\nretry: 10\n\ndata:x\n";
        let chunk: Result<Vec<u8>, ClientError> = Ok(text.as_bytes().to_vec());
        let mut events = Events::new(Lines::new("test".into(), Box::pin(futures::stream::iter([chunk]))));
        let first =
            ServerEvent { id: Some("7".into()), kind: Some("ended".into()), data: "{\"job\":\n3}".into() };
        assert_eq!(events.next().await.unwrap(), Some(first));
        assert_eq!(events.next().await.unwrap().map(|event| event.data), Some("x".into()));
        assert_eq!(events.next().await.unwrap(), None);
    }
}
