//! The other side: for the command line, and to test the broker's side against.

use super::{
    ChannelBinding, ITERATIONS_LIMIT, ITERATIONS_MIN, Key, ScramError, ScramHash, attribute,
    bound_header, is_nonce, text,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use subtle::ConstantTimeEq;

/// Where a client starts.
pub struct ScramClient;

/// Waits for salt and iterations. Debug output hides the password.
pub struct ExpectServerFirst {
    hash: ScramHash,
    password: Box<[u8]>,
    nonce: String,
    /// `client-first-message-bare`.
    bare: String,
    /// What `c=` says.
    channel_binding: String,
}

/// Waits for the server's proof.
pub struct ExpectServerFinal {
    server_signature: Key,
}

impl ScramClient {
    /// The client-first-message. `nonce`: 18 or more fresh random bytes, never used before.
    /// With a `binding` this is the mechanism's `-PLUS`.
    pub fn start(
        hash: ScramHash,
        binding: Option<&ChannelBinding>,
        user: &str,
        password: &[u8],
        nonce: &[u8],
    ) -> (ExpectServerFirst, Vec<u8>) {
        let header = match binding {
            None => String::from("n,,"),
            Some(binding) => format!("p={},,", binding.name),
        };
        let nonce = STANDARD.encode(nonce);
        // RFC 5802 §5.1: in this order, so that the escapes' own `=` stays.
        let bare = format!(
            "n={},r={nonce}",
            user.replace('=', "=3D").replace(',', "=2C")
        );
        let client_first = format!("{header}{bare}").into_bytes();
        (
            ExpectServerFirst {
                hash,
                channel_binding: bound_header(&header, binding),
                password: password.into(),
                nonce,
                bare,
            },
            client_first,
        )
    }
}

impl ExpectServerFirst {
    /// Reads the server-first-message and returns the client-final-message.
    pub fn last(self, server_first: &[u8]) -> Result<(ExpectServerFinal, Vec<u8>), ScramError> {
        let message = text(server_first)?;
        if message.starts_with("m=") {
            return Err(ScramError::ExtensionsNotSupported);
        }
        if message.starts_with("e=") {
            return Err(ScramError::ServerRefused);
        }
        let mut fields = message.split(',');
        let nonce = attribute(&mut fields, 'r')?;
        let salt = STANDARD
            .decode(attribute(&mut fields, 's')?)
            .map_err(|_| ScramError::InvalidEncoding)?;
        let iterations: u32 = attribute(&mut fields, 'i')?
            .parse()
            .map_err(|_| ScramError::InvalidEncoding)?;
        // RFC 5802 §5.1: the server must have added something of its own.
        if !nonce.strip_prefix(&self.nonce).is_some_and(is_nonce) {
            return Err(ScramError::WrongNonce);
        }
        // RFC 7677 §4 sets the floor; without a ceiling a false server could keep us computing.
        if !(ITERATIONS_MIN..=ITERATIONS_LIMIT).contains(&iterations) {
            return Err(ScramError::IterationsOutOfRange);
        }
        let hash = self.hash;
        let salted = hash.salted_password(&self.password, &salt, iterations);
        let client_key = hash.hmac(&salted, &[b"Client Key"]);
        let without_proof = format!("c={},r={nonce}", self.channel_binding);
        let auth_message = [
            self.bare.as_bytes(),
            b",",
            message.as_bytes(),
            b",",
            without_proof.as_bytes(),
        ];
        let proof = client_key.xor(&hash.hmac(&hash.hash(&client_key), &auth_message));
        let server_signature = hash.hmac(&hash.hmac(&salted, &[b"Server Key"]), &auth_message);
        let client_final = format!("{without_proof},p={}", STANDARD.encode(&*proof)).into_bytes();
        Ok((ExpectServerFinal { server_signature }, client_final))
    }
}

impl ExpectServerFinal {
    /// Reads the server-final-message; `Ok` means that the server knows the password too.
    pub fn finish(self, server_final: &[u8]) -> Result<(), ScramError> {
        let message = text(server_final)?;
        if message.starts_with("e=") {
            return Err(ScramError::ServerRefused);
        }
        let signature = attribute(&mut message.split(','), 'v')?;
        let signature = STANDARD
            .decode(signature)
            .map_err(|_| ScramError::InvalidEncoding)?;
        match signature.ct_eq(&*self.server_signature).into() {
            true => Ok(()),
            false => Err(ScramError::ServerNotProven),
        }
    }
}

impl fmt::Debug for ExpectServerFirst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpectServerFirst")
            .field("bare", &self.bare)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ExpectServerFinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpectServerFinal").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ScramServer, ScramVerifier, example};

    fn start() -> (ExpectServerFirst, Vec<u8>) {
        let nonce = STANDARD
            .decode(example::CLIENT_NONCE)
            .expect("the example's nonce happens to be base64");
        ScramClient::start(
            ScramHash::Sha256,
            None,
            example::USER,
            example::PASSWORD,
            &nonce,
        )
    }

    #[test]
    fn the_example_of_rfc_7677_is_met_byte_for_byte() {
        let (expect, client_first) = start();
        assert_eq!(client_first, example::CLIENT_FIRST);
        let (expect, client_final) = expect.last(example::SERVER_FIRST).expect("legal");
        assert_eq!(client_final, example::CLIENT_FINAL);
        assert_eq!(expect.finish(example::SERVER_FINAL), Ok(()));
    }

    #[test]
    fn the_example_of_rfc_5802_is_met_byte_for_byte() {
        let nonce = STANDARD.decode("fyko+d2lbbFgONRv9qkxdawL").expect("base64");
        let (expect, client_first) =
            ScramClient::start(ScramHash::Sha1, None, "user", b"pencil", &nonce);
        assert_eq!(client_first, b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL");
        let server_first: &[u8] =
            b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096";
        let (expect, client_final) = expect.last(server_first).expect("legal");
        let expected: &[u8] =
            b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=";
        assert_eq!(client_final, expected);
        assert_eq!(expect.finish(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="), Ok(()));
    }

    #[test]
    fn a_client_on_another_connection_than_it_believes_is_refused() {
        let binding = |octet| ChannelBinding {
            name: "tls-exporter",
            data: vec![octet; 32],
        };
        let verifier = ScramVerifier::derive(ScramHash::Sha256, b"pencil", &[3; 16], 4096);
        let last = |there: Option<ChannelBinding>, here| {
            let (client, first) = ScramClient::start(
                ScramHash::Sha256,
                there.as_ref(),
                "user",
                b"pencil",
                &[7; 18],
            );
            let server = ScramServer::start(&[1; 18], here);
            let (server, challenge) = server.first(&first, |_| verifier.clone())?;
            let (_, proof) = client.last(&challenge).expect("legal");
            server.last(&proof).map(|_| ())
        };
        assert_eq!(last(Some(binding(1)), Some(binding(1))), Ok(()));
        assert_eq!(last(None, None), Ok(()));
        let differ = Err(ScramError::ChannelBindingsDontMatch);
        assert_eq!(last(Some(binding(2)), Some(binding(1))), differ);
        let refused = Err(ScramError::ChannelBindingNotSupported);
        assert_eq!(last(Some(binding(1)), None), refused);
        assert_eq!(last(None, Some(binding(1))), refused);
    }

    #[test]
    fn false_servers_are_found_out() {
        use ScramError::*;
        let good = std::str::from_utf8(example::SERVER_FIRST).expect("text");
        let table = [
            (good.replace("i=4096", "i=4095"), IterationsOutOfRange),
            (good.replace("i=4096", "i=4000000000"), IterationsOutOfRange),
            (good.replace("i=4096", "i=x"), InvalidEncoding),
            (good.replace("r=rOpr", "r=xOpr"), WrongNonce),
            (good.replace(example::SERVER_NONCE, ""), WrongNonce),
            (good.replace("r=", "m=x,r="), ExtensionsNotSupported),
            ("e=other-error".into(), ServerRefused),
            (String::new(), InvalidEncoding),
        ];
        for (message, expected) in table {
            assert_eq!(
                start().0.last(message.as_bytes()).err(),
                Some(expected),
                "{message}"
            );
        }
        for (message, expected) in [
            (&b"e=invalid-proof"[..], ServerRefused),
            (b"v=AAAA", ServerNotProven),
            (b"v=!", InvalidEncoding),
            (b"", InvalidEncoding),
        ] {
            let (expect, _) = start().0.last(example::SERVER_FIRST).expect("legal");
            assert_eq!(expect.finish(message), Err(expected));
        }
    }

    /// A small generator (splitmix64), so that a seed reproduces a case.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn random_text(state: &mut u64, length_max: u64) -> String {
        const CHARACTERS: [char; 12] =
            ['a', 'Z', '0', ',', '=', '%', ' ', 'ß', '水', '"', '/', ':'];
        let length = 1 + next(state) % length_max;
        (0..length)
            .map(|_| CHARACTERS[(next(state) % 12) as usize])
            .collect()
    }

    #[test]
    fn both_sides_agree_for_any_name_and_password_and_only_for_the_right_one() {
        for seed in 0..48u64 {
            let mut state = seed;
            let (user, password) = (random_text(&mut state, 20), random_text(&mut state, 40));
            let hash = [ScramHash::Sha1, ScramHash::Sha256][(seed / 3 % 2) as usize];
            let binding = (seed % 4 == 1).then(|| ChannelBinding {
                name: "tls-exporter",
                data: vec![seed as u8; 32],
            });
            let (salt, nonces) = (
                next(&mut state).to_be_bytes(),
                [next(&mut state), next(&mut state)],
            );
            let iterations = 4096 + (next(&mut state) % 50) as u32;
            let verifier = ScramVerifier::derive(hash, password.as_bytes(), &salt, iterations);
            let offered = match seed % 3 {
                0 => random_text(&mut state, 40),
                _ => password.clone(),
            };
            let (client, first) = ScramClient::start(
                hash,
                binding.as_ref(),
                &user,
                offered.as_bytes(),
                &nonces[0].to_be_bytes(),
            );
            let (server, challenge) = ScramServer::start(&nonces[1].to_be_bytes(), binding.clone())
                .first(&first, |name| {
                    assert_eq!(name, user, "seed {seed}");
                    verifier
                })
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let (client, proof) = client
                .last(&challenge)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            match server.last(&proof) {
                Ok(proven) => {
                    assert_eq!(offered, password, "seed {seed}");
                    assert_eq!(*proven.user, *user, "seed {seed}");
                    assert_eq!(client.finish(&proven.server_final), Ok(()), "seed {seed}");
                }
                Err(error) => {
                    assert_eq!(error, ScramError::InvalidProof, "seed {seed}");
                    assert_ne!(offered, password, "seed {seed}");
                    assert_eq!(
                        client.finish(error.server_final()),
                        Err(ScramError::ServerRefused),
                        "seed {seed}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_unknown_user_is_answered_like_a_known_one_and_fails_like_a_wrong_password() {
        let real = ScramVerifier::derive(ScramHash::Sha256, b"x", &[3; 16], 4096);
        let (client, first) = start();
        let fake = ScramVerifier::fake(&[9; 32], example::USER, Some(&real));
        let (server, challenge) = ScramServer::start(&[1; 18], None)
            .first(&first, |_| fake)
            .expect("legal");
        let (_, proof) = client.last(&challenge).expect("looks right");
        assert_eq!(server.last(&proof).err(), Some(ScramError::InvalidProof));
    }
}
