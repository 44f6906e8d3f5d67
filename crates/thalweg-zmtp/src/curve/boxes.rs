//! Boxes as NaCl makes them: 16 octets of Poly1305, then the text under XSalsa20.

use curve25519_dalek::MontgomeryPoint;
use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit;
use salsa20::cipher::consts::U10;
use salsa20::cipher::{KeyIvInit, StreamCipher};
use salsa20::{XSalsa20, hsalsa};
use subtle::ConstantTimeEq;

/// Octets by which a box is longer than its text.
pub(super) const TAG_LEN: usize = 16;

/// Opens and makes boxes with one key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BoxKey([u8; 32]);

impl BoxKey {
    /// The key of boxes in both directions between the owner of `secret` and that of `public`; `None` if `public` is
    /// one of the few points that give the same key for every secret.
    pub(super) fn between(public: &[u8; 32], secret: &[u8; 32]) -> Option<BoxKey> {
        let point = MontgomeryPoint(*public).mul_clamped(*secret).to_bytes();
        let is_known_to_all = bool::from(point.ct_eq(&[0; 32]));
        (!is_known_to_all).then(|| BoxKey(hsalsa::<U10>(&point.into(), &[0; 16].into()).into()))
    }

    /// A secret key that only this end has.
    pub(super) fn secret(key: [u8; 32]) -> BoxKey {
        BoxKey(key)
    }

    /// Makes a box in place out of 16 octets of anything and a text behind them.
    pub(super) fn seal(&self, nonce: &[u8; 24], boxed: &mut [u8]) {
        let (mut stream, mac) = self.stream(nonce);
        if let Some((tag, text)) = boxed.split_first_chunk_mut::<TAG_LEN>() {
            stream.apply_keystream(text);
            *tag = mac.compute_unpadded(text).into();
        }
    }

    pub(super) fn sealed(&self, nonce: &[u8; 24], text: &[&[u8]]) -> Vec<u8> {
        let mut boxed = vec![0; TAG_LEN];
        text.iter().for_each(|part| boxed.extend_from_slice(part));
        self.seal(nonce, &mut boxed);
        boxed
    }

    /// The text in a box, still encrypted, if the box is authentic.
    pub(super) fn open<'b>(&self, nonce: &[u8; 24], boxed: &'b [u8]) -> Option<Text<'b>> {
        let (tag, encrypted) = boxed.split_first_chunk::<TAG_LEN>()?;
        let (stream, mac) = self.stream(nonce);
        let expected: [u8; TAG_LEN] = mac.compute_unpadded(encrypted).into();
        bool::from(expected.ct_eq(tag)).then_some(Text { stream, encrypted })
    }

    /// The cipher behind its first 32 octets, and the authenticator whose key they are.
    fn stream(&self, nonce: &[u8; 24]) -> (XSalsa20, Poly1305) {
        let mut stream = XSalsa20::new(&self.0.into(), &(*nonce).into());
        let mut key = [0; 32];
        stream.apply_keystream(&mut key);
        (stream, Poly1305::new(&key.into()))
    }
}

/// A text that is authentic and not decrypted yet.
pub(crate) struct Text<'b> {
    stream: XSalsa20,
    encrypted: &'b [u8],
}

impl Text<'_> {
    pub(crate) fn len(&self) -> usize {
        self.encrypted.len()
    }

    /// Decrypts the next octet.
    pub(crate) fn take_octet(&mut self) -> Option<u8> {
        let (octet, rest) = self.encrypted.split_first()?;
        let mut octet = [*octet];
        self.stream.apply_keystream(&mut octet);
        self.encrypted = rest;
        Some(octet[0])
    }

    /// Decrypts the rest behind what `out` holds.
    pub(crate) fn append_to(mut self, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(self.encrypted);
        self.stream
            .apply_keystream(out.get_mut(at..).unwrap_or_default());
    }

    pub(super) fn decrypted(self) -> Vec<u8> {
        let mut text = Vec::new();
        self.append_to(&mut text);
        text
    }
}

/// Generator of a handshake's random octets, from 32 secret octets that are used once.
pub(super) fn random<const N: usize>(seed: &[u8; 32]) -> [u8; N] {
    let mut random = [0; N];
    XSalsa20::new(&(*seed).into(), &[0; 24].into()).apply_keystream(&mut random);
    random
}

/// A connection's seed for CURVE: from 32 secret octets of the process, and a number that no other connection has.
pub fn connection_seed(secret: &[u8; 32], number: u64) -> [u8; 32] {
    let mut nonce = [0; 24];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    let mut seed = [0; 32];
    XSalsa20::new(&(*secret).into(), &nonce.into()).apply_keystream(&mut seed);
    seed
}

/// A nonce that is counted.
pub(super) fn short_nonce(prefix: &[u8; 16], count: u64) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..16].copy_from_slice(prefix);
    nonce[16..].copy_from_slice(&count.to_be_bytes());
    nonce
}

/// A nonce that is random.
pub(super) fn long_nonce(prefix: &[u8; 8], random: &[u8; 16]) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..8].copy_from_slice(prefix);
    nonce[8..].copy_from_slice(random);
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyPair;
    use thalweg_wire::testkit::parse_bytes;

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        parse_bytes(text)
            .expect("hex")
            .try_into()
            .expect("the length")
    }

    /// The vectors of "Cryptography in NaCl" and of NaCl's tests/box.c.
    #[test]
    fn a_box_is_the_one_of_nacl() {
        let alice = hex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
        let bob = hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
        let alice_public = hex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
        let bob_public = hex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
        let key = hex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389");
        let nonce = hex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37");
        let text: [u8; 131] = hex(
            "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffc\
             e5ecbaaf33bd751a1ac728d45e6c61296cdc3c01233561f41db66cce314adb31\
             0e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde\
             048977eb48f59ffd4924ca1c60902e52f0a089bc76897040e082f93776384864\
             5e0705",
        );
        let boxed: [u8; 147] = hex(
            "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce\
             48332ea7164d96a4476fb8c531a1186ac0dfc17c98dce87b4da7f011ec48c972\
             71d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae\
             90224368517acfeabd6bb3732bc0e9da99832b61ca01b6de56244a9e88d5f9b3\
             7973f622a43d14a6599b1f654cb45a74e355a5",
        );
        assert_eq!(KeyPair::from_secret(alice).public(), &alice_public);
        let shared = BoxKey::between(&bob_public, &alice).expect("a key");
        assert!(shared == BoxKey::secret(key));
        assert!(shared == BoxKey::between(&alice_public, &bob).expect("a key"));
        assert_eq!(shared.sealed(&nonce, &[&text]), boxed);
        let opened = shared.open(&nonce, &boxed).expect("authentic");
        assert_eq!(opened.decrypted(), text);
        for at in [0, 15, 16, 146] {
            let mut changed = boxed;
            changed[at] ^= 1;
            assert!(shared.open(&nonce, &changed).is_none());
        }
        assert!(shared.open(&nonce, &boxed[..15]).is_none());
    }

    #[test]
    fn a_public_key_that_leaves_nothing_secret_is_refused() {
        for point in [0, 1] {
            let mut public = [0; 32];
            public[0] = point;
            assert!(BoxKey::between(&public, &[7; 32]).is_none());
        }
    }
}
