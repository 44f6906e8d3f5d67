//! HELLO and INITIATE, read; WELCOME and READY, written.
//!
//! C and S are the lasting keys of client and server, C' and S' those of the connection; small letters are secret keys.

use subtle::ConstantTimeEq;

use super::boxes::{long_nonce, random, short_nonce};
use super::{BoxKey, Cipher, KeyPair};
use crate::PeerFault;

/// Keys and randomness of a server for CURVE.
#[derive(Clone, PartialEq, Eq)]
pub struct CurveServer {
    /// The server's lasting key pair: S and s in RFC 26.
    pub keys: KeyPair,
    /// 32 random octets, new for each connection: out of them come its S', its cookie and its nonces.
    pub seed: [u8; 32],
}

impl std::fmt::Debug for CurveServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CurveServer({:?})", self.keys)
    }
}

/// All that a server keeps between WELCOME and INITIATE: C' and s' are in the cookie, which the client keeps.
/// [26#The_HELLO_Command]
#[derive(PartialEq, Eq)]
pub(crate) struct Cookie {
    key: [u8; 32],
    /// The client's last nonce.
    heard: u64,
}

impl std::fmt::Debug for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cookie")
    }
}

impl CurveServer {
    /// The data of WELCOME for the data of a HELLO.
    pub(crate) fn welcome(&self, hello: &[u8]) -> Result<(Vec<u8>, Cookie), PeerFault> {
        let hello: &[u8; 194] = hello.try_into().map_err(|_| PeerFault::CURVE_LENGTH)?;
        let (version, rest) = hello.split_at(2);
        let (padding, rest) = rest.split_at(72);
        if version != [1, 0] || padding != [0; 72] {
            return Err(PeerFault::CURVE_HELLO);
        }
        let (client, rest) = array::<32>(rest)?;
        let (count, signature) = array::<8>(rest)?;
        let heard = u64::from_be_bytes(*count);
        let key = BoxKey::between(client, &self.keys.secret).ok_or(PeerFault::CURVE_BOX)?;
        let zeros = key
            .open(&short_nonce(b"CurveZMQHELLO---", heard), signature)
            .ok_or(PeerFault::CURVE_BOX)?;
        if zeros.decrypted() != [0; 64] {
            return Err(PeerFault::CURVE_HELLO);
        }

        let random: [u8; 96] = random(&self.seed);
        let (secret, rest) = array::<32>(&random)?;
        let (cookie_key, rest) = array::<32>(rest)?;
        let (cookie_nonce, welcome_nonce) = array::<16>(rest)?;
        let (welcome_nonce, _) = array::<16>(welcome_nonce)?;
        let ours = KeyPair::from_secret(*secret);
        // cookie = Box [C' + s'](K)
        let cookie = BoxKey::secret(*cookie_key).sealed(
            &long_nonce(b"COOKIE--", cookie_nonce),
            &[client, &ours.secret],
        );
        // welcome-box = Box [S' + cookie](S->C')
        let text: [&[u8]; 3] = [&ours.public, cookie_nonce, &cookie];
        let welcome = key.sealed(&long_nonce(b"WELCOME-", welcome_nonce), &text);
        let key = *cookie_key;
        Ok((
            [&welcome_nonce[..], &welcome].concat(),
            Cookie { key, heard },
        ))
    }

    /// The cipher, C and the client's metadata out of the data of an INITIATE.
    pub(crate) fn initiate(
        &self,
        cookie: &Cookie,
        initiate: &[u8],
    ) -> Result<(Cipher, [u8; 32], Vec<u8>), PeerFault> {
        let (cookie_nonce, rest) = array::<16>(initiate)?;
        let (cookie_box, rest) = array::<80>(rest)?;
        let (count, initiate_box) = array::<8>(rest)?;
        let opened = BoxKey::secret(cookie.key)
            .open(&long_nonce(b"COOKIE--", cookie_nonce), cookie_box)
            .ok_or(PeerFault::CURVE_BOX)?
            .decrypted();
        let (client, secret) = array::<32>(&opened)?;
        let (secret, _) = array::<32>(secret)?;
        let heard = u64::from_be_bytes(*count);
        if heard <= cookie.heard {
            return Err(PeerFault::CURVE_NONCE);
        }
        // initiate-box = Box [C + vouch + metadata](C'->S')
        let key = BoxKey::between(client, secret).ok_or(PeerFault::CURVE_BOX)?;
        let text = key
            .open(&short_nonce(b"CurveZMQINITIATE", heard), initiate_box)
            .ok_or(PeerFault::CURVE_BOX)?
            .decrypted();
        let (lasting, rest) = array::<32>(&text)?;
        let (vouch_nonce, rest) = array::<16>(rest)?;
        let (vouch_box, metadata) = array::<80>(rest)?;
        // vouch-box = Box [C',S](C->S'): the owner of c confirms that C' is its own and that S is meant.
        let vouch = BoxKey::between(lasting, secret)
            .and_then(|key| key.open(&long_nonce(b"VOUCH---", vouch_nonce), vouch_box))
            .ok_or(PeerFault::CURVE_VOUCH)?
            .decrypted();
        let expected = [&client[..], &self.keys.public].concat();
        if !bool::from(vouch.ct_eq(&expected)) {
            return Err(PeerFault::CURVE_VOUCH);
        }
        let cipher = Cipher::new(key, true, 0, heard);
        Ok((cipher, *lasting, metadata.to_vec()))
    }
}

/// Returns the first octets and the rest.
pub(super) fn array<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), PeerFault> {
    bytes.split_first_chunk().ok_or(PeerFault::CURVE_LENGTH)
}
