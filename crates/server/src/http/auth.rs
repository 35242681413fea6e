//! Who asks: bearer tokens, or a browser's session that stands for one (`sessions`), and what each role may do.
//!
//! A secret is `lf_<id>_<64 hexadecimal digits>`: 256 random bits behind the id they are looked up by. Only the SHA-256 of
//! the whole is stored, and it is compared in constant time.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use landfall_api::ApiError;
use landfall_api::token::{NewToken, Role, TokenRequest, TokenView};
use landfall_model::{NodeId, Time};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::app::App;
use super::problem::Problem;
use crate::driver::Caller;
use crate::driver::Failure;
use crate::driver::nodes::Most;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredToken {
    pub(crate) view: TokenView,
    /// SHA-256 of its secret, in hexadecimal digits.
    pub(crate) hash: String,
}

/// Everything known about tokens, in memory.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    by_id: RwLock<BTreeMap<String, Arc<StoredToken>>>,
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// Makes a token; nothing is stored yet.
pub(crate) fn make(request: TokenRequest, now: Time) -> Result<(StoredToken, NewToken), Failure> {
    let mut random = [0u8; 38];
    getrandom::fill(&mut random).map_err(|error| Failure::Storage(format!("no randomness: {error}")))?;
    let (id, secret) = random.split_at(6);
    let id = hex(id);
    let secret = format!("lf_{id}_{}", hex(secret));
    let view = TokenView {
        id,
        name: request.name,
        role: request.role,
        tenant: request.tenant,
        node: request.node,
        created_at_ms: u64::try_from(now.as_millis()).unwrap_or(0),
        expires_at_ms: request.expires_at_ms,
        max_cpu_milli: request.max_cpu_milli,
        max_ram_mib: request.max_ram_mib,
    };
    let stored = StoredToken { view: view.clone(), hash: hash(&secret) };
    Ok((stored, NewToken { token: view, secret }))
}

impl Tokens {
    /// Adds tokens or takes them in anew.
    pub(crate) fn insert(&self, token: StoredToken) {
        let mut tokens = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        tokens.insert(token.view.id.clone(), Arc::new(token));
    }

    /// Forgets a token.
    pub(crate) fn remove(&self, id: &str) {
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<StoredToken>> {
        self.by_id.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<TokenView> {
        let tokens = self.by_id.read().unwrap_or_else(PoisonError::into_inner);
        tokens.values().map(|token| token.view.clone()).collect()
    }

    /// Whether the token of somebody who was let in still stands; streams ask now and then.
    pub(crate) fn still_stands(&self, principal: &Principal, now: Time) -> bool {
        self.get(&principal.token).is_some_and(|token| !has_expired(&token.view, now))
    }

    /// Whose secret this is.
    pub(crate) fn check(&self, secret: &str, now: Time) -> Result<Principal, Problem> {
        let id = secret.strip_prefix("lf_").and_then(|rest| rest.split_once('_')).map(|(id, _)| id);
        let token = id.and_then(|id| self.get(id));
        // The same work is done whether there is such a token or not.
        let nothing = hash("");
        let wanted = token.as_ref().map_or(nothing.as_bytes(), |token| token.hash.as_bytes());
        let equal = bool::from(hash(secret).as_bytes().ct_eq(wanted));
        let Some(token) = token.filter(|_| equal) else {
            return Err(unauthorized("bad_token", "the token is not valid"));
        };
        if has_expired(&token.view, now) {
            return Err(unauthorized("expired_token", "the token has expired"));
        }
        Ok(Principal::of(&token.view))
    }

    /// Who stands behind the id of a token that still works.
    pub(crate) fn principal(&self, id: &str, now: Time) -> Option<Principal> {
        let token = self.get(id).filter(|token| !has_expired(&token.view, now))?;
        Some(Principal::of(&token.view))
    }
}

pub(crate) fn has_expired(token: &TokenView, now: Time) -> bool {
    token.expires_at_ms.is_some_and(|at| i64::try_from(at).unwrap_or(i64::MAX) <= now.as_millis())
}

pub(crate) fn unauthorized(code: &str, message: &str) -> Problem {
    let hint = "give one with --token-file or LANDFALL_TOKEN_FILE (over HTTP: `Authorization: Bearer …`); whoever runs the server \
                has one in the file `token` of its data directory";
    let error = ApiError::new(code, message).hint(hint);
    Problem::new(StatusCode::UNAUTHORIZED, error)
        .header(header::WWW_AUTHENTICATE, "Bearer realm=\"landfall\"")
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) token: String,
    pub(crate) name: String,
    /// What it may do.
    pub(crate) role: Role,
    pub(crate) tenant: Option<String>,
    pub(crate) node: Option<String>,
    /// How large its node may be.
    pub(crate) most: Most,
}

/// The answer to somebody who may not do this.
pub(crate) fn forbidden(principal: &Principal, needed: &str) -> Problem {
    let role = match principal.role {
        Role::Admin => "admin",
        Role::Operator => "operator",
        Role::Submitter => "submitter",
        Role::Agent => "agent",
    };
    let message = format!("this needs the role {needed}; token `{}` has the role {role}", principal.name);
    let error = ApiError::new("forbidden", message).hint("use another token, or ask an admin for one");
    Problem::new(StatusCode::FORBIDDEN, error)
}

impl Principal {
    fn of(token: &TokenView) -> Self {
        let TokenView { id, name, role, tenant, node, max_cpu_milli, max_ram_mib, .. } = token.clone();
        Self {
            token: id,
            name,
            role,
            tenant,
            node,
            most: Most { cpu_milli: max_cpu_milli, ram_mib: max_ram_mib },
        }
    }

    /// Whether it may see everybody's jobs.
    pub(crate) fn sees_all(&self) -> bool {
        matches!(self.role, Role::Admin | Role::Operator)
    }

    /// Whether it may see and steer jobs of this tenant.
    pub(crate) fn sees(&self, tenant: Option<&str>) -> bool {
        self.sees_all()
            || (self.role == Role::Submitter && self.tenant.is_some() && self.tenant.as_deref() == tenant)
    }

    /// Who asks, as submissions know it.
    pub(crate) fn caller(&self) -> Caller {
        let tenant = if self.sees_all() { None } else { self.tenant.clone() };
        Caller { token: self.token.clone(), name: self.name.clone(), tenant }
    }

    /// Refuses an agent that speaks for another node.
    pub(crate) fn speaks_for(&self, node: &NodeId) -> Result<(), Problem> {
        let own = self.node.as_deref().is_some_and(|own| own == "*" || own == node.as_str());
        if self.sees_all() || (self.role == Role::Agent && own) {
            return Ok(());
        }
        let message = format!("token `{}` does not speak for node `{node}`", self.name);
        let error = ApiError::new("other_node", message).hint("use the token of that node");
        Err(Problem::new(StatusCode::FORBIDDEN, error))
    }
}

impl FromRequestParts<Arc<App>> for Principal {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let Some(value) = parts.headers.get(header::AUTHORIZATION) else {
            let by_cookie = super::sessions::principal(parts, app);
            return by_cookie.unwrap_or_else(|| Err(unauthorized("no_token", "there is no token")));
        };
        let text = value.to_str().unwrap_or_default();
        let (scheme, secret) = text.split_once(' ').unwrap_or((text, ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(unauthorized("no_token", "the Authorization header is not a bearer token"));
        }
        app.tokens.check(secret.trim(), app.handle.now())
    }
}

macro_rules! roles {
    ($($(#[$doc:meta])* $name:ident: $needed:literal, $($role:ident)|+;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name(pub(crate) Principal);

        impl FromRequestParts<Arc<App>> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
                let principal = Principal::from_request_parts(parts, app).await?;
                match principal.role {
                    $(Role::$role)|+ => Ok(Self(principal)),
                    _ => Err(forbidden(&principal, $needed)),
                }
            }
        }
    )*};
}

roles! {
    /// Somebody who may do everything.
    Admin: "admin", Admin;
    /// Somebody who may do everything but change tokens.
    Operator: "operator", Admin | Operator;
    /// Somebody who may submit jobs and see their own.
    Submitter: "submitter", Admin | Operator | Submitter;
    /// Somebody who may speak for nodes; which ones is asked later.
    Agent: "agent", Admin | Operator | Agent;
}
