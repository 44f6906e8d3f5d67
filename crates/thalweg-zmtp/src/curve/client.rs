//! HELLO and INITIATE, written; WELCOME and READY, read. The names of keys are those of `server`.

use super::boxes::{long_nonce, random, short_nonce};
use super::server::array;
use super::{BoxKey, Cipher, KeyPair};
use crate::PeerFault;

/// Keys and randomness of a client for CURVE.
#[derive(Clone, PartialEq, Eq)]
pub struct CurveClient {
    /// S, which the client must know beforehand.
    pub server: [u8; 32],
    /// The client's lasting key pair: C and c in RFC 26.
    pub keys: KeyPair,
    /// 32 random octets, new for each connection: out of them come its C' and its nonce.
    pub seed: [u8; 32],
}

/// A client that has said HELLO.
pub(crate) struct Hello {
    ours: KeyPair,
    vouch_nonce: [u8; 16],
    /// Of boxes between C' and S.
    key: BoxKey,
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hello")
    }
}

impl CurveClient {
    /// The data of HELLO; `None` if the server's key is none.
    pub(crate) fn hello(&self) -> Option<(Vec<u8>, Hello)> {
        let random: [u8; 48] = random(&self.seed);
        let (secret, vouch_nonce) = random.split_first_chunk()?;
        let ours = KeyPair::from_secret(*secret);
        let key = BoxKey::between(&self.server, &ours.secret)?;
        // "Signature, Box [64 * %x0](C'->S)"
        let signature = key.sealed(&short_nonce(b"CurveZMQHELLO---", 1), &[&[0; 64]]);
        let mut data = vec![0; 74];
        data[0] = 1;
        data.extend_from_slice(&ours.public);
        data.extend_from_slice(&1_u64.to_be_bytes());
        data.extend_from_slice(&signature);
        let vouch_nonce = vouch_nonce.try_into().ok()?;
        let hello = Hello {
            ours,
            vouch_nonce,
            key,
        };
        Some((data, hello))
    }

    /// Returns the data of INITIATE for the data of a WELCOME, and the cipher for all later frames.
    pub(crate) fn initiate(
        &self,
        hello: &Hello,
        welcome: &[u8],
        metadata: &[u8],
    ) -> Result<(Vec<u8>, Cipher), PeerFault> {
        let (welcome_nonce, welcome_box) = array::<16>(welcome)?;
        let text = hello
            .key
            .open(&long_nonce(b"WELCOME-", welcome_nonce), welcome_box)
            .ok_or(PeerFault::CURVE_BOX)?
            .decrypted();
        let (server, cookie) = array::<32>(&text)?;
        let cookie: &[u8; 96] = cookie.try_into().map_err(|_| PeerFault::CURVE_LENGTH)?;
        let ours = &hello.ours;
        let vouch = BoxKey::between(server, &self.keys.secret)
            .ok_or(PeerFault::CURVE_BOX)?
            .sealed(
                &long_nonce(b"VOUCH---", &hello.vouch_nonce),
                &[&ours.public, &self.server],
            );
        let key = BoxKey::between(server, &ours.secret).ok_or(PeerFault::CURVE_BOX)?;
        let text: [&[u8]; 4] = [&self.keys.public, &hello.vouch_nonce, &vouch, metadata];
        let initiate = key.sealed(&short_nonce(b"CurveZMQINITIATE", 2), &text);
        let data = [&cookie[..], &2_u64.to_be_bytes(), &initiate].concat();
        Ok((data, Cipher::new(key, false, 2, 0)))
    }
}
