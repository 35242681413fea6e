//! Turning a request away.

use super::Owed;
use super::handle::{Failure, Reply, Request};

/// The answer to a request that is not followed.
pub(super) fn refuse(request: Request, failure: Failure) -> Owed {
    fn send<T: Send + 'static>(reply: Reply<T>, failure: Failure) -> Owed {
        Box::new(move |_| {
            // Whoever asked may have gone away.
            let _ = reply.send(Err(failure));
        })
    }
    match request {
        Request::Apply(_, _, reply) => send(reply, failure),
        Request::Submit(_, reply) => send(reply, failure),
        Request::Extend(_, reply) => send(reply, failure),
        Request::Register(_, reply) => send(reply, failure),
        Request::Heartbeat(_, _, reply) => send(reply, failure),
        Request::Reports(_, _, reply) => send(reply, failure),
        Request::Ask(_, _, reply) => send(reply, failure),
        Request::Acknowledge(_, _, reply) => send(reply, failure),
        Request::Read(_) | Request::Close(_) => Box::new(|_| {}),
    }
}
