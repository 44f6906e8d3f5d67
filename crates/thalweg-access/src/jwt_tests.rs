//! Tests of tokens. The keys and the tokens signed with them were made once with OpenSSL 3, a foreign implementation;
//! their private halves are gone.

use super::*;
use ring::hmac;
use serde_json::json;

const RSA: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAwMphDBafFBP+ioif4lNA
o34teYlu2sCcB3pTBw4Qd40I6J2iDxy2IhKRjfKsT4wTtvL7CuMbesxoHq3FNjYz
c/VY9pxRsXSlh8UEsNbailpLidyNyX8e1/Bd/VD1kn28htAZl1SVEKW49Gi4YnMH
DC6J0Pbq5UbkfDlbTSoyhFsm4cEnUFQ96rVBsVMMu5SIQMIfRHEslRG1eV4ndaDb
BKGAfAZuq/3/qyriemWS/iPbRhn6Td7T1pW7qAInfP67t3Iz1yVcIM2hjP3MyL1i
sgjyI6nMvsK41Oasv8YMARzKyPHJBwjPA8zauZkQfONcQ4UXfpyOm8lzfEFw/QOG
UwIDAQAB
-----END PUBLIC KEY-----
";
const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJkZXY3IiwiZXhwIjoyMDAwMDAwMDAwfQ.REIFQqkJ6BCcg1GI21U16EUzE8uKN_fiVBxCXp__nPQtYicM5-25QZ_erNePvDiB6Jmq5wr8m4Ibk_vBozj8WOkObgoGQJB29Cn50jHcOlVHcs8vQvWjqRupQS22imnZMd1WH6QnPrSaCDppYRIqLjsrG7C9c8HRv2Ucuf5cDOud9Bc8aEDRJ98RTKf40zw1FK9VpnVuMMzrgC2EoNi2IpFyb9RPso2t-P_4hne19oKpBepEm2gwO_GIAlIZMuuUv0MCf5UtXhcKeqUNCot8lwO3v4XQhGsgM8zgAN6ug_ZIbR61i6RWMEnjwp-M2q-7BRXyh3pX7iFbg4N-fVBKSQ";
const EC: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEQbOFhk33FhH21dGzeFJy+OnAv0K0
QquRs2eC+g8AuLWJN8gCm+amUQPCFSMth5012GPKCH/vsFNQdRscQ3kM/Q==
-----END PUBLIC KEY-----
";
const EC_TOKEN: &str = "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJkZXY3IiwiZXhwIjoyMDAwMDAwMDAwfQ.CO45B4AICHTgQlSC8YhdRlx89KcGY8BnQYxV-6ESN2CgkWnAo-Zwd7t8gKu6O5b7jDKZUKiO3-ovqG6u0GebZw";
const ED: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA2SYAt6I5jE1peadso/qpPTNj0ONCwkvo5rRzuqnrD+M=
-----END PUBLIC KEY-----
";
const ED_TOKEN: &str = "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJkZXY3IiwiZXhwIjoyMDAwMDAwMDAwfQ.qZzzCePfFQUNIiF1EjodwqTJFudq2PLPHw3LYfXXHGzzMToUBl6T3ExHD3HFHrMPA3igBPBsqpE3LKVyt4IhCA";

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// The tokens above end here.
const END: u64 = 2_000_000_000;
const NOW: u64 = 1_900_000_000;

fn key(algorithm: TokenAlgorithm, bytes: &[u8]) -> TokenKeySettings {
    TokenKeySettings {
        id: None,
        algorithm,
        source: TokenKeySource::Bytes(bytes.into()),
    }
}

fn keys(keys: Vec<TokenKeySettings>) -> TokenKeys {
    TokenKeys::load(&TokenSettings {
        keys,
        ..TokenSettings::default()
    })
    .expect("keys are good")
}

/// An HS256 token, made here from the words of RFC 7515 §3.1.
pub(crate) fn sign_with(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(header), part(claims));
    let signature = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, secret),
        signed.as_bytes(),
    );
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn sign(claims: &Value) -> String {
    sign_with(&json!({"alg": "HS256", "typ": "JWT"}), claims, SECRET)
}

#[track_caller]
fn check(settings: TokenSettings, claims: &Value, expected: Result<(), TokenError>) {
    let settings = TokenSettings {
        keys: vec![key(TokenAlgorithm::Hs256, SECRET)],
        ..settings
    };
    let keys = TokenKeys::load(&settings).expect("keys are good");
    let verdict = keys.check(sign(claims).as_bytes(), NOW);
    assert_eq!(verdict.map(|_| ()), expected, "{claims}");
}

#[test]
fn tokens_signed_elsewhere_are_verified_with_each_algorithm() {
    let table = [
        (TokenAlgorithm::Rs256, RSA, RSA_TOKEN),
        (TokenAlgorithm::Es256, EC, EC_TOKEN),
        (TokenAlgorithm::EdDsa, ED, ED_TOKEN),
    ];
    for (algorithm, pem, token) in table {
        let keys = keys(vec![key(algorithm, pem.as_bytes())]);
        let claims = keys
            .check(token.as_bytes(), NOW)
            .unwrap_or_else(|error| panic!("{algorithm:?}: {error}"));
        assert_eq!(
            (&*claims.user, claims.expires_at_unix),
            ("dev7", Some(END + 5))
        );
        assert!(claims.rules.is_none());
        // One changed bit in the signature, one in the claims.
        for place in [token.len() - 20, token.find('.').expect("has parts") + 10] {
            let mut forged = token.as_bytes().to_vec();
            forged[place] = if forged[place] == b'A' { b'B' } else { b'A' };
            assert_eq!(
                keys.check(&forged, NOW).err(),
                Some(TokenError::BadSignature),
                "{algorithm:?} {place}"
            );
        }
        for (other, _, foreign) in table.iter().filter(|(other, ..)| *other != algorithm) {
            assert_eq!(
                keys.check(foreign.as_bytes(), NOW).err(),
                Some(TokenError::UnknownKey),
                "{other:?}"
            );
        }
    }
}

#[test]
fn a_token_without_signature_is_never_good() {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = part(json!({"sub": "dev7", "exp": END}));
    let keys = keys(vec![key(TokenAlgorithm::Hs256, SECRET)]);
    for algorithm in ["none", "None", "NONE", ""] {
        for signature in ["", "AAAA"] {
            let token = format!(
                "{}.{claims}.{signature}",
                part(json!({"alg": algorithm, "typ": "JWT"}))
            );
            assert!(looks_like_token(token.as_bytes()));
            assert_eq!(
                keys.check(token.as_bytes(), NOW).err(),
                Some(TokenError::Malformed),
                "{token}"
            );
        }
    }
}

#[test]
fn a_public_key_is_never_taken_for_a_secret() {
    // The classic attack: HS256 with the broker's public key as the secret.
    let claims = json!({"sub": "dev7", "exp": END});
    let forged = sign_with(&json!({"alg": "HS256"}), &claims, RSA.as_bytes());
    let keys = keys(vec![key(TokenAlgorithm::Rs256, RSA.as_bytes())]);
    assert_eq!(
        keys.check(forged.as_bytes(), NOW).err(),
        Some(TokenError::UnknownKey)
    );
}

#[test]
fn times_are_judged_with_leeway_and_the_end_is_told() {
    let any = TokenSettings::default;
    check(any(), &json!({"sub": "a", "exp": NOW + 1}), Ok(()));
    check(any(), &json!({"sub": "a", "exp": NOW - 4}), Ok(()));
    check(
        any(),
        &json!({"sub": "a", "exp": NOW - 5}),
        Err(TokenError::Expired),
    );
    check(
        any(),
        &json!({"sub": "a", "exp": -1}),
        Err(TokenError::Expired),
    );
    check(any(), &json!({"sub": "a", "exp": NOW as f64 + 0.5}), Ok(()));
    check(
        any(),
        &json!({"sub": "a", "exp": "tomorrow"}),
        Err(TokenError::BadClaim("exp: not a number".into())),
    );
    check(any(), &json!({"sub": "a"}), Err(TokenError::NoExpiry));
    check(
        TokenSettings {
            expiry_required: false,
            ..any()
        },
        &json!({"sub": "a"}),
        Ok(()),
    );
    check(
        any(),
        &json!({"sub": "a", "exp": END, "nbf": NOW + 5}),
        Ok(()),
    );
    check(
        any(),
        &json!({"sub": "a", "exp": END, "nbf": NOW + 6}),
        Err(TokenError::NotYet),
    );
    check(any(), &json!({"sub": "a", "exp": u64::MAX}), Ok(()));
}

#[test]
fn issuer_audience_and_user_are_judged_also_when_they_are_missing() {
    let settings = || TokenSettings {
        issuers: vec!["https://issuer".into()],
        audiences: vec!["broker".into(), "other".into()],
        user_claim: "name".into(),
        ..TokenSettings::default()
    };
    let good = json!({"name": "a", "exp": END, "iss": "https://issuer", "aud": "broker"});
    let with = |claim: &str, value: Value| {
        let mut claims = good.clone();
        claims[claim] = value;
        claims
    };
    check(settings(), &good, Ok(()));
    check(settings(), &with("aud", json!(["x", "other"])), Ok(()));
    check(
        settings(),
        &with("aud", json!(["x"])),
        Err(TokenError::WrongAudience),
    );
    check(
        settings(),
        &with("aud", Value::Null),
        Err(TokenError::WrongAudience),
    );
    check(
        settings(),
        &with("iss", json!("https://else")),
        Err(TokenError::WrongIssuer),
    );
    check(
        settings(),
        &with("iss", json!(["https://issuer"])),
        Err(TokenError::WrongIssuer),
    );
    check(
        settings(),
        &json!({"name": "a", "exp": END, "aud": "broker"}),
        Err(TokenError::WrongIssuer),
    );
    check(
        settings(),
        &json!({"name": "a", "exp": END, "iss": "https://issuer"}),
        Err(TokenError::WrongAudience),
    );
    check(
        settings(),
        &with("name", json!("")),
        Err(TokenError::NoUser),
    );
    check(settings(), &with("name", json!(7)), Err(TokenError::NoUser));
}

#[test]
fn a_token_may_carry_its_rules() {
    let acl = json!({"publish": ["data/%u/#"], "subscribe": ["cmd/%u/+"]});
    let claims = json!({"sub": "dev7", "exp": END, "thalweg_acl": acl});
    let keys = keys(vec![key(TokenAlgorithm::Hs256, SECRET)]);
    let rules = keys
        .check(sign(&claims).as_bytes(), NOW)
        .expect("good")
        .rules
        .expect("has rules");
    let access = rules.compile("c", Some("dev7"));
    let table = [
        (Permission::Publish, "data/dev7/x", true),
        (Permission::Publish, "data/dev8/x", false),
        (Permission::Publish, "cmd/dev7/x", false),
        (Permission::Subscribe, "cmd/dev7/x", true),
        (Permission::Subscribe, "cmd/+/x", false),
        (Permission::Receive, "cmd/dev7/x", true),
        (Permission::Receive, "data/dev7/x", false),
    ];
    for (permission, target, expected) in table {
        assert_eq!(
            access.allows(permission, target),
            expected,
            "{permission:?} {target}"
        );
    }
}

#[test]
fn rules_that_cannot_be_read_make_the_token_useless() {
    let many: Vec<_> = (0..300).map(|number| format!("t/{number}")).collect();
    let table = [
        (json!([]), "not an object"),
        (json!({"publish": "a"}), "\"publish\" is not a list"),
        (
            json!({"publish": [1]}),
            "\"publish\" holds something that is no text",
        ),
        (
            json!({"deny": ["a"]}),
            "\"deny\" is not publish, subscribe or configure",
        ),
        (
            json!({"publish": ["a/#/b"]}),
            "# must stand alone in the last level",
        ),
        (json!({"subscribe": many}), "more than 256 patterns"),
    ];
    for (acl, problem) in table {
        let claims = json!({"sub": "a", "exp": END, "thalweg_acl": acl});
        check(
            TokenSettings::default(),
            &claims,
            Err(TokenError::BadClaim(format!("thalweg_acl: {problem}"))),
        );
    }
}

#[test]
fn keys_roll_over_by_id_or_by_trying() {
    let (old, new) = (SECRET, b"another secret of at least 32 by".as_slice());
    let named = |id: Option<&str>, bytes: &[u8]| TokenKeySettings {
        id: id.map(Into::into),
        ..key(TokenAlgorithm::Hs256, bytes)
    };
    let sign = |kid: Option<&str>| {
        let mut header = json!({"alg": "HS256"});
        if let Some(kid) = kid {
            header["kid"] = kid.into();
        }
        sign_with(&header, &json!({"sub": "a", "exp": END}), new)
    };
    let both = keys(vec![named(Some("old"), old), named(Some("new"), new)]);
    let verdict = |keys: &TokenKeys, kid| keys.check(sign(kid).as_bytes(), NOW).map(|_| ());
    assert_eq!(verdict(&both, Some("new")), Ok(()));
    assert_eq!(verdict(&both, None), Ok(()));
    assert_eq!(verdict(&both, Some("old")), Err(TokenError::BadSignature));
    assert_eq!(verdict(&both, Some("else")), Err(TokenError::UnknownKey));
    assert_eq!(
        verdict(&keys(vec![named(None, old), named(None, new)]), Some("any")),
        Ok(())
    );
}

#[test]
fn the_example_of_rfc_7515_is_met() {
    // Appendix A.1; its key is given in base64url, its `exp` passed in 2011.
    let secret =
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
    let secret = URL_SAFE_NO_PAD.decode(secret).expect("base64url");
    let token = concat!(
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.",
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.",
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    );
    let settings = TokenSettings {
        keys: vec![key(TokenAlgorithm::Hs256, &secret)],
        user_claim: "iss".into(),
        leeway_seconds: 0,
        ..TokenSettings::default()
    };
    let keys = TokenKeys::load(&settings).expect("keys are good");
    assert_eq!(
        keys.check(token.as_bytes(), 1_300_819_379)
            .map(|claims| claims.user.to_string()),
        Ok("joe".into())
    );
    assert_eq!(
        keys.check(token.as_bytes(), 1_300_819_380).err(),
        Some(TokenError::Expired)
    );
}

#[test]
fn a_critical_header_is_not_overlooked() {
    let header = json!({"alg": "HS256", "crit": ["b64"]});
    let token = sign_with(&header, &json!({"sub": "a", "exp": END}), SECRET);
    let keys = keys(vec![key(TokenAlgorithm::Hs256, SECRET)]);
    assert_eq!(
        keys.check(token.as_bytes(), NOW).err(),
        Some(TokenError::Malformed)
    );
}

#[test]
fn junk_is_malformed_and_passwords_do_not_look_like_tokens() {
    let keys = keys(vec![key(TokenAlgorithm::Hs256, SECRET)]);
    for junk in [
        &b""[..],
        b".",
        b"..",
        b"a.b.c",
        b"\xff.\xff.\xff",
        &[b'.'; 20_000],
    ] {
        assert_eq!(keys.check(junk, NOW).err(), Some(TokenError::Malformed));
        assert!(!looks_like_token(junk));
    }
    assert!(!looks_like_token(b"my.pass.word") && !looks_like_token(b"eyJh.b.c.d"));
    assert!(looks_like_token(RSA_TOKEN.as_bytes()));
}

#[test]
fn unusable_keys_are_refused_at_start() {
    let table = [
        (TokenAlgorithm::Hs256, "short", "fewer than 32"),
        (TokenAlgorithm::Hs256, RSA, "no shared secret"),
        (TokenAlgorithm::Rs256, EC, "give an RSA public key"),
        (TokenAlgorithm::Es256, ED, "give a P-256 public key"),
        (TokenAlgorithm::EdDsa, RSA, "give an Ed25519 public key"),
        (TokenAlgorithm::Rs256, "junk", "give an RSA public key"),
        (
            TokenAlgorithm::EdDsa,
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "a private key",
        ),
    ];
    for (algorithm, bytes, expected) in table {
        let settings = TokenSettings {
            keys: vec![key(algorithm, bytes.as_bytes())],
            ..TokenSettings::default()
        };
        let errors = TokenKeys::load(&settings)
            .err()
            .unwrap_or_else(|| panic!("{algorithm:?} took {bytes}"));
        assert!(
            errors[0].to_string().contains(expected),
            "{algorithm:?}: {}",
            errors[0]
        );
    }
    assert!(
        TokenKeys::load(&TokenSettings::default()).is_err(),
        "no key at all"
    );
}
