//! Tokens as passwords: JWT (RFC 7519) signed with a configured key.
//!
//! `jsonwebtoken` checks the signature and nothing else; the claims are judged here, against a time that is a
//! parameter and with absent claims meaning what RFC 7519 says (a required issuer that is missing is wrong). Each key
//! serves exactly one algorithm (RFC 8725 §3.1), so `none` and a public key taken for a secret have no way in.

use super::{
    AccessError, TokenAlgorithm, TokenKeySettings, TokenKeySource, TokenSettings, jwt_signature,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use thalweg_kernel::access::{Otherwise, Permission, Permissions, Rule, Rules};

/// Everything needed to judge a token.
pub struct TokenKeys {
    settings: TokenSettings,
    keys: Vec<TokenKey>,
}

struct TokenKey {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
    validation: Validation,
}

/// What a good token says.
#[derive(Clone, Debug)]
pub struct TokenClaims {
    pub user: Arc<str>,
    /// The second since 1970 from which it is no longer good, leeway included. None: it has no end.
    pub expires_at_unix: Option<u64>,
    /// The rules it carries, which then replace the ACL file's.
    pub rules: Option<Arc<Rules>>,
}

/// Why a token is not good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// It is not a signed token, or not one that may be read (too long, unknown algorithm, unknown critical header).
    Malformed,
    /// No configured key has its algorithm and key id.
    UnknownKey,
    /// The signature was not made with our key.
    BadSignature,
    /// `exp` has passed.
    Expired,
    /// `nbf` lies ahead.
    NotYet,
    /// It has no `exp`, which is required here.
    NoExpiry,
    /// It names another issuer, or none.
    WrongIssuer,
    /// It is meant for another audience, or for none.
    WrongAudience,
    /// The user claim is missing or empty.
    NoUser,
    /// A claim has a form that cannot be used; the text says which.
    BadClaim(String),
}

impl TokenKeys {
    pub fn load(settings: &TokenSettings) -> Result<Self, Vec<AccessError>> {
        jwt_signature::install();
        let (mut keys, mut errors) = (Vec::new(), Vec::new());
        for key in &settings.keys {
            match TokenKey::load(key) {
                Ok(key) => keys.push(key),
                Err(error) => errors.push(error),
            }
        }
        if settings.keys.is_empty() {
            let mend = "name one, or switch tokens off";
            errors.push(AccessError::file(
                Path::new(""),
                "tokens are switched on without a key",
                mend,
            ));
        }
        match errors.is_empty() {
            true => Ok(TokenKeys {
                settings: settings.clone(),
                keys,
            }),
            false => Err(errors),
        }
    }

    /// Judges a token at a moment, in seconds since 1970.
    pub fn check(&self, token: &[u8], now_unix: u64) -> Result<TokenClaims, TokenError> {
        let claims = self.verify(token)?;
        let expires_at_unix = self.check_times(&claims, now_unix)?;
        self.check_names(&claims)?;
        let user = match claims.get(&self.settings.user_claim) {
            Some(Value::String(user)) if !user.is_empty() && !user.contains('\0') => {
                user.as_str().into()
            }
            _ => return Err(TokenError::NoUser),
        };
        let rules = claims
            .get(&self.settings.acl_claim)
            .map(rules_of_claim)
            .transpose();
        let rules = rules.map_err(|problem| {
            TokenError::BadClaim(format!("{}: {problem}", self.settings.acl_claim))
        })?;
        Ok(TokenClaims {
            user,
            expires_at_unix,
            rules: rules.map(|rules| Arc::new(rules.into_own())),
        })
    }

    /// Whether a user name sent beside the token must be the token's.
    pub fn user_must_match(&self) -> bool {
        self.settings.user_must_match
    }

    /// Whether a token is the only way to log in.
    pub fn are_required(&self) -> bool {
        self.settings.required
    }

    fn verify(&self, token: &[u8]) -> Result<Map<String, Value>, TokenError> {
        if token.len() > TOKEN_BYTES_LIMIT {
            return Err(TokenError::Malformed);
        }
        let header = decode_header(token).map_err(|_| TokenError::Malformed)?;
        // RFC 7515 §4.1.11: what is critical and not understood makes the token invalid. Nothing is understood.
        if header.crit.is_some() {
            return Err(TokenError::Malformed);
        }
        let mut error = TokenError::UnknownKey;
        for key in self.keys.iter().filter(|key| key.algorithm == header.alg) {
            if let (Some(own), Some(named)) = (&key.id, &header.kid)
                && own != named
            {
                continue;
            }
            match decode::<Map<String, Value>>(token, &key.key, &key.validation) {
                Ok(data) => return Ok(data.claims),
                Err(_) => error = TokenError::BadSignature,
            }
        }
        Err(error)
    }

    fn check_times(
        &self,
        claims: &Map<String, Value>,
        now_unix: u64,
    ) -> Result<Option<u64>, TokenError> {
        let leeway = self.settings.leeway_seconds;
        let ends = numeric_date(claims, "exp")?.map(|exp| exp.saturating_add(leeway));
        match ends {
            None if self.settings.expiry_required => return Err(TokenError::NoExpiry),
            // RFC 7519 §4.1.4: good only *before* `exp`.
            Some(ends) if now_unix >= ends => return Err(TokenError::Expired),
            _ => {}
        }
        match numeric_date(claims, "nbf")? {
            Some(begins) if now_unix.saturating_add(leeway) < begins => Err(TokenError::NotYet),
            _ => Ok(ends),
        }
    }

    fn check_names(&self, claims: &Map<String, Value>) -> Result<(), TokenError> {
        let accepted = |list: &[String], claim: &str| {
            let is_listed = |value: &Value| {
                value
                    .as_str()
                    .is_some_and(|text| list.iter().any(|entry| entry == text))
            };
            list.is_empty()
                || match claims.get(claim) {
                    // RFC 7519 §4.1.3: `aud` may be a list, of which one entry is enough. §4.1.1: `iss` may not.
                    Some(Value::Array(values)) if claim == "aud" => values.iter().any(is_listed),
                    Some(value) => is_listed(value),
                    None => false,
                }
        };
        if !accepted(&self.settings.issuers, "iss") {
            return Err(TokenError::WrongIssuer);
        }
        match accepted(&self.settings.audiences, "aud") {
            true => Ok(()),
            false => Err(TokenError::WrongAudience),
        }
    }
}

/// Whether a password has the shape of a token: three parts, the first of them a JSON object in base64url.
pub(super) fn looks_like_token(password: &[u8]) -> bool {
    let parts: Vec<_> = password.splitn(4, |byte| *byte == b'.').collect();
    let [header, _, _] = parts.as_slice() else {
        return false;
    };
    URL_SAFE_NO_PAD
        .decode(header)
        .is_ok_and(|header| header.trim_ascii_start().starts_with(b"{"))
}

impl TokenKey {
    fn load(settings: &TokenKeySettings) -> Result<Self, AccessError> {
        let (path, bytes) = match &settings.source {
            TokenKeySource::Bytes(bytes) => (Path::new(""), bytes.clone()),
            TokenKeySource::File(path) => {
                let bytes = std::fs::read(path).map_err(|error| {
                    let problem = format!("the token key cannot be read: {error}");
                    AccessError::file(path, problem, "check the path and who may read it")
                })?;
                (path.as_path(), without_line_break(bytes))
            }
        };
        let (algorithm, key) = decoding_key(settings.algorithm, &bytes)
            .map_err(|(problem, mend)| AccessError::file(path, problem, mend))?;
        // Trying the key on nothing tells now, not at the first login, whether it is one for this algorithm.
        jsonwebtoken::crypto::verify("", b"", &key, algorithm).map_err(|error| {
            AccessError::file(
                path,
                format!("the token key cannot be used: {error}"),
                key_mend(settings.algorithm),
            )
        })?;
        let mut validation = Validation::new(algorithm);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        Ok(TokenKey {
            id: settings.id.clone(),
            algorithm,
            key,
            validation,
        })
    }
}

fn decoding_key(
    algorithm: TokenAlgorithm,
    bytes: &[u8],
) -> Result<(Algorithm, DecodingKey), (String, &'static str)> {
    let mend = key_mend(algorithm);
    let is_pem = bytes.trim_ascii_start().starts_with(b"-----BEGIN");
    if algorithm == TokenAlgorithm::Hs256 {
        return match bytes.len() {
            _ if is_pem => Err(("a PEM key is no shared secret for HS256".into(), mend)),
            length if length < HS256_SECRET_BYTES_MIN => Err((
                format!("the HS256 secret holds {length} bytes, fewer than 32 (RFC 7518 §3.2)"),
                mend,
            )),
            _ => Ok((Algorithm::HS256, DecodingKey::from_secret(bytes))),
        };
    }
    if bytes
        .windows(PRIVATE_KEY.len())
        .any(|window| window == PRIVATE_KEY)
    {
        return Err((
            "this is a private key, which a broker should not have".into(),
            mend,
        ));
    }
    let (algorithm, key) = match algorithm {
        TokenAlgorithm::Es256 => (Algorithm::ES256, DecodingKey::from_ec_pem(bytes)),
        TokenAlgorithm::EdDsa => (Algorithm::EdDSA, DecodingKey::from_ed_pem(bytes)),
        TokenAlgorithm::Rs256 | TokenAlgorithm::Hs256 => {
            (Algorithm::RS256, DecodingKey::from_rsa_pem(bytes))
        }
    };
    let key = key.map_err(|error| (format!("the token key cannot be used: {error}"), mend))?;
    Ok((algorithm, key))
}

fn key_mend(algorithm: TokenAlgorithm) -> &'static str {
    match algorithm {
        TokenAlgorithm::Hs256 => {
            "give a secret of at least 32 bytes, e.g. from `openssl rand -hex 32`"
        }
        TokenAlgorithm::Rs256 => "give an RSA public key as PEM (`openssl pkey -in KEY -pubout`)",
        TokenAlgorithm::Es256 => "give a P-256 public key as PEM (`openssl pkey -in KEY -pubout`)",
        TokenAlgorithm::EdDsa => {
            "give an Ed25519 public key as PEM (`openssl pkey -in KEY -pubout`)"
        }
    }
}

/// RFC 7519 §2 NumericDate: seconds since 1970, fractions allowed. A moment before 1970 is 0.
fn numeric_date(claims: &Map<String, Value>, claim: &str) -> Result<Option<u64>, TokenError> {
    match claims.get(claim) {
        None => Ok(None),
        Some(Value::Number(number)) => Ok(Some(match number.as_u64() {
            Some(seconds) => seconds,
            // A float-to-integer cast saturates, and is 0 for what is negative.
            None => number.as_f64().unwrap_or(0.0) as u64,
        })),
        Some(_) => Err(TokenError::BadClaim(format!("{claim}: not a number"))),
    }
}

/// `{publish: [...], subscribe: [...], configure: [...]}`; an absent list grants nothing. `subscribe` is what `read` is in
/// an ACL file: it takes from queues, too.
fn rules_of_claim(claim: &Value) -> Result<Rules, String> {
    let claim = claim.as_object().ok_or("not an object")?;
    let mut rules = Vec::new();
    for (name, list) in claim {
        let permissions = match name.as_str() {
            "publish" => Permission::Publish.into(),
            "subscribe" => Permissions::READ,
            "configure" => Permission::Configure.into(),
            // Skipping a word we do not know could skip a prohibition.
            _ => return Err(format!("\"{name}\" is not publish, subscribe or configure")),
        };
        for pattern in list
            .as_array()
            .ok_or_else(|| format!("\"{name}\" is not a list"))?
        {
            let pattern = pattern
                .as_str()
                .ok_or_else(|| format!("\"{name}\" holds something that is no text"))?;
            rules.push(Rule::allow(permissions, pattern));
        }
    }
    if rules.len() > TOKEN_RULES_LIMIT {
        return Err(format!("more than {TOKEN_RULES_LIMIT} patterns"));
    }
    Rules::new(rules, Otherwise::Deny).map_err(|(_, error)| error.to_string())
}

fn without_line_break(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    bytes
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenError::Malformed => "the token is malformed",
            TokenError::UnknownKey => "no configured key has the token's algorithm and key id",
            TokenError::BadSignature => "the token's signature is not ours",
            TokenError::Expired => "the token has expired",
            TokenError::NotYet => "the token is not good yet",
            TokenError::NoExpiry => "the token has no expiry (exp)",
            TokenError::WrongIssuer => "the token's issuer is not accepted",
            TokenError::WrongAudience => "the token's audience is not accepted",
            TokenError::NoUser => "the token names no user",
            TokenError::BadClaim(problem) => return write!(f, "the token's claim {problem}"),
        })
    }
}

impl std::error::Error for TokenError {}

/// The longest token that is read, in bytes.
const TOKEN_BYTES_LIMIT: usize = 16_384;

/// The most patterns a token may carry: each is judged on each publish.
const TOKEN_RULES_LIMIT: usize = 256;

/// RFC 7518 §3.2: as long as the hash.
const HS256_SECRET_BYTES_MIN: usize = 32;

const PRIVATE_KEY: &[u8] = b"PRIVATE KEY-----";

#[cfg(test)]
#[path = "jwt_tests.rs"]
pub(super) mod tests;
