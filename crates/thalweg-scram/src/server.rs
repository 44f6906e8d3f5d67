//! The broker's side.

use super::{
    ChannelBinding, Key, ScramError, ScramVerifier, attribute, bound_header, is_nonce, text,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Waits for the client's first message.
#[derive(Debug)]
pub struct ScramServer {
    nonce: String,
    binding: Option<ChannelBinding>,
}

/// Waits for the client's proof.
#[derive(Debug)]
pub struct ExpectClientFinal {
    user: Arc<str>,
    verifier: ScramVerifier,
    /// Base64 of the header, and of the binding, that `c=` must repeat.
    channel_binding: String,
    nonce: String,
    /// `client-first-message-bare "," server-first-message`.
    auth_message: String,
}

/// A client that knows the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    pub user: Arc<str>,
    /// The last message to it, which proves the server.
    pub server_final: Vec<u8>,
}

impl ScramServer {
    /// `nonce`: 18 or more fresh random bytes, never used before. With a `binding` this is the mechanism's `-PLUS`.
    pub fn start(nonce: &[u8], binding: Option<ChannelBinding>) -> Self {
        ScramServer {
            binding,
            nonce: STANDARD.encode(nonce),
        }
    }

    /// Reads the client-first-message and returns the server-first-message. `lookup` must give an unknown user a
    /// [`ScramVerifier::fake`], or the answer shows which users exist.
    pub fn first(
        self,
        client_first: &[u8],
        lookup: impl FnOnce(&str) -> ScramVerifier,
    ) -> Result<(ExpectClientFinal, Vec<u8>), ScramError> {
        let message = text(client_first)?;
        let mut parts = message.splitn(3, ',');
        let (Some(flag), Some(authorization), Some(bare)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(ScramError::InvalidEncoding);
        };
        match (flag, &self.binding) {
            // RFC 5802 §6: `y` is a client that could bind, but believes that we cannot. It is right, or it would have
            // chosen the mechanism that does.
            ("n" | "y", None) => {}
            ("n" | "y", Some(_)) => return Err(ScramError::ChannelBindingNotSupported),
            _ => {
                let name = flag.strip_prefix("p=").ok_or(ScramError::InvalidEncoding)?;
                if self
                    .binding
                    .as_ref()
                    .is_none_or(|binding| binding.name != name)
                {
                    return Err(ScramError::ChannelBindingNotSupported);
                }
            }
        }
        // RFC 5802 §5.1: a mandatory extension would stand first.
        if bare.starts_with("m=") {
            return Err(ScramError::ExtensionsNotSupported);
        }
        let mut fields = bare.split(',');
        let user = unescape(attribute(&mut fields, 'n')?)?;
        let client_nonce = attribute(&mut fields, 'r')?;
        if user.is_empty() || !is_nonce(client_nonce) {
            return Err(ScramError::InvalidEncoding);
        }
        if !authorization.is_empty() {
            let wanted = authorization
                .strip_prefix("a=")
                .ok_or(ScramError::InvalidEncoding)?;
            if unescape(wanted)? != user {
                return Err(ScramError::OtherAuthorizationIdentity);
            }
        }
        let verifier = lookup(&user);
        let nonce = format!("{client_nonce}{}", self.nonce);
        let server_first = format!(
            "r={nonce},s={},i={}",
            STANDARD.encode(&verifier.salt),
            verifier.iterations
        );
        let expect = ExpectClientFinal {
            user: user.into(),
            verifier,
            channel_binding: bound_header(
                &format!("{flag},{authorization},"),
                self.binding.as_ref(),
            ),
            nonce,
            auth_message: format!("{bare},{server_first}"),
        };
        Ok((expect, server_first.into_bytes()))
    }
}

impl ExpectClientFinal {
    /// Who the client says it is; nothing is proven yet.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Reads the client-final-message; who meets the verifier is proven.
    pub fn last(self, client_final: &[u8]) -> Result<Proven, ScramError> {
        let message = text(client_final)?;
        // RFC 5802 §7: the proof is the last field, and the signature covers all that stands before its comma.
        let (without_proof, proof) = message
            .rsplit_once(",p=")
            .ok_or(ScramError::InvalidEncoding)?;
        let mut fields = without_proof.split(',');
        let (channel_binding, nonce) = (attribute(&mut fields, 'c')?, attribute(&mut fields, 'r')?);
        let proof = STANDARD
            .decode(proof)
            .map_err(|_| ScramError::InvalidEncoding)?;
        let hash = self.verifier.hash;
        let proof = Key::new(hash, &proof).ok_or(ScramError::InvalidEncoding)?;
        if channel_binding != self.channel_binding {
            return Err(ScramError::ChannelBindingsDontMatch);
        }
        if nonce != self.nonce {
            return Err(ScramError::WrongNonce);
        }
        let auth_message = [self.auth_message.as_bytes(), b",", without_proof.as_bytes()];
        let signature = hash.hmac(&self.verifier.stored_key, &auth_message);
        let client_key = proof.xor(&signature);
        if !bool::from(hash.hash(&client_key).ct_eq(&*self.verifier.stored_key)) {
            return Err(ScramError::InvalidProof);
        }
        let server_signature = hash.hmac(&self.verifier.server_key, &auth_message);
        let server_final = format!("v={}", STANDARD.encode(&*server_signature)).into_bytes();
        Ok(Proven {
            user: self.user,
            server_final,
        })
    }
}

/// RFC 5802 §5.1: `=2C` and `=3D` stand for comma and equals sign, any other `=` is an error.
fn unescape(name: &str) -> Result<String, ScramError> {
    let mut plain = String::with_capacity(name.len());
    let mut parts = name.split('=');
    plain.push_str(parts.next().unwrap_or(""));
    for part in parts {
        let (character, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(ScramError::InvalidEncoding),
        };
        plain.push(character);
        plain.push_str(rest);
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn verifier() -> ScramVerifier {
        ScramVerifier::derive(
            crate::ScramHash::Sha256,
            example::PASSWORD,
            &STANDARD.decode(example::SALT).expect("base64"),
            4096,
        )
    }

    fn first(client_first: &[u8]) -> Result<(ExpectClientFinal, Vec<u8>), ScramError> {
        ScramServer {
            nonce: example::SERVER_NONCE.into(),
            binding: None,
        }
        .first(client_first, |_| verifier())
    }

    fn last(client_first: &[u8], client_final: &str) -> Result<Proven, ScramError> {
        first(client_first)
            .expect("first is legal")
            .0
            .last(client_final.as_bytes())
    }

    #[test]
    fn the_example_of_rfc_7677_is_met_byte_for_byte() {
        let (expect, server_first) = first(example::CLIENT_FIRST).expect("legal");
        assert_eq!(server_first, example::SERVER_FIRST);
        let proven = expect.last(example::CLIENT_FINAL).expect("proven");
        assert_eq!(
            proven,
            Proven {
                user: "user".into(),
                server_final: example::SERVER_FINAL.into()
            }
        );
    }

    #[test]
    fn first_messages_are_judged() {
        use ScramError::*;
        let table: [(&str, Option<ScramError>); 17] = [
            ("n,,n=user,r=abc", None),
            ("y,,n=user,r=abc", None),
            ("n,a=user,n=user,r=abc", None),
            ("n,,n=user,r=abc,x=optional", None),
            ("n,a=root,n=user,r=abc", Some(OtherAuthorizationIdentity)),
            (
                "p=tls-exporter,,n=user,r=abc",
                Some(ChannelBindingNotSupported),
            ),
            ("q,,n=user,r=abc", Some(InvalidEncoding)),
            ("n,,m=x,n=user,r=abc", Some(ExtensionsNotSupported)),
            ("n,,n=,r=abc", Some(InvalidEncoding)),
            ("n,,n=us=er,r=abc", Some(InvalidEncoding)),
            ("n,,n=user,r=", Some(InvalidEncoding)),
            ("n,,n=user,r=a b", Some(InvalidEncoding)),
            ("n,,r=abc,n=user", Some(InvalidEncoding)),
            ("n,,n=user", Some(InvalidEncoding)),
            ("n,", Some(InvalidEncoding)),
            ("", Some(InvalidEncoding)),
            ("n,,n=us\0er,r=abc", Some(InvalidEncoding)),
        ];
        for (message, expected) in table {
            assert_eq!(first(message.as_bytes()).err(), expected, "{message}");
        }
        assert_eq!(first(&[b'n'; 5000]).err(), Some(TooLong));
        assert_eq!(first(b"n,,n=\xff,r=abc").err(), Some(InvalidEncoding));
    }

    #[test]
    fn names_are_unescaped() {
        let (expect, _) = first(b"n,,n=a=2Cb=3Dc,r=abc").expect("legal");
        assert_eq!(expect.user(), "a,b=c");
    }

    #[test]
    fn final_messages_are_judged() {
        use ScramError::*;
        let good = std::str::from_utf8(example::CLIENT_FINAL).expect("text");
        let table = [
            (good.replace("p=dHzb", "p=eHzb"), InvalidProof),
            (good.replace("c=biws", "c=eSws"), ChannelBindingsDontMatch),
            (good.replace("hNlF$k0,", "hNlF$k1,"), WrongNonce),
            (good.replace("ndVQ=", "ndVQ"), InvalidEncoding),
            (good.replace("p=dHzb", "p="), InvalidEncoding),
            (good.replace(",p=", ",q="), InvalidEncoding),
            (good.replace("c=biws,", ""), InvalidEncoding),
            // Signed fields may not be slipped in either.
            (good.replace(",p=", ",x=1,p="), InvalidProof),
            (String::new(), InvalidEncoding),
        ];
        for (message, expected) in table {
            assert_eq!(
                last(example::CLIENT_FIRST, &message).err(),
                Some(expected),
                "{message}"
            );
        }
    }

    #[test]
    fn a_client_that_could_bind_must_repeat_that_it_could() {
        let first = b"y,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let good = std::str::from_utf8(example::CLIENT_FINAL).expect("text");
        assert_eq!(
            last(first, good).err(),
            Some(ScramError::ChannelBindingsDontMatch)
        );
        // With `y,,` repeated, only the proof (made for `n,,`) is wrong.
        assert_eq!(
            last(first, &good.replace("biws", "eSws")).err(),
            Some(ScramError::InvalidProof)
        );
    }
}
