//! The registry of Content-Formats: numbers for media types and codings. RFC 7252 §12.3

/// One line per format: its constant, number and media type.
macro_rules! formats {
    ($($name:ident $number:literal $media_type:literal;)*) => {
        $(#[doc = concat!("`", $media_type, "`.")]
        pub const $name: u16 = $number;)*

        /// Numbers and media types, ascending; of two numbers with one media type the first is without a content coding.
        const TABLE: &[(u16, &str)] = &[$(($number, $media_type)),*];
    };
}

formats! {
    TEXT_PLAIN 0 "text/plain;charset=utf-8";
    COSE_ENCRYPT0 16 "application/cose;cose-type=\"cose-encrypt0\"";
    COSE_MAC0 17 "application/cose;cose-type=\"cose-mac0\"";
    COSE_SIGN1 18 "application/cose;cose-type=\"cose-sign1\"";
    ACE_CBOR 19 "application/ace+cbor";
    GIF 21 "image/gif";
    JPEG 22 "image/jpeg";
    PNG 23 "image/png";
    LINK_FORMAT 40 "application/link-format";
    XML 41 "application/xml";
    OCTET_STREAM 42 "application/octet-stream";
    EXI 47 "application/exi";
    JSON 50 "application/json";
    JSON_PATCH 51 "application/json-patch+json";
    MERGE_PATCH 52 "application/merge-patch+json";
    CBOR 60 "application/cbor";
    CWT 61 "application/cwt";
    MULTIPART_CORE 62 "application/multipart-core";
    CBOR_SEQ 63 "application/cbor-seq";
    EDHOC 64 "application/edhoc+cbor-seq";
    CID_EDHOC 65 "application/cid-edhoc+cbor-seq";
    COSE_ENCRYPT 96 "application/cose;cose-type=\"cose-encrypt\"";
    COSE_MAC 97 "application/cose;cose-type=\"cose-mac\"";
    COSE_SIGN 98 "application/cose;cose-type=\"cose-sign\"";
    COSE_KEY 101 "application/cose-key";
    COSE_KEY_SET 102 "application/cose-key-set";
    SENML_JSON 110 "application/senml+json";
    SENSML_JSON 111 "application/sensml+json";
    SENML_CBOR 112 "application/senml+cbor";
    SENSML_CBOR 113 "application/sensml+cbor";
    SENML_EXI 114 "application/senml-exi";
    SENSML_EXI 115 "application/sensml-exi";
    YANG_DATA_SID 140 "application/yang-data+cbor;id=sid";
    COAP_GROUP 256 "application/coap-group+json";
    PROBLEM_DETAILS 257 "application/concise-problem-details+cbor";
    SWID 258 "application/swid+cbor";
    PKIXCMP 259 "application/pkixcmp";
    YANG_SID 260 "application/yang-sid+json";
    ACE_GROUPCOMM 261 "application/ace-groupcomm+cbor";
    DOTS 271 "application/dots+cbor";
    MISSING_BLOCKS 272 "application/missing-blocks+cbor-seq";
    PKCS7_SERVER_GENERATED_KEY 280 "application/pkcs7-mime;smime-type=server-generated-key";
    PKCS7_CERTS_ONLY 281 "application/pkcs7-mime;smime-type=certs-only";
    PKCS8 284 "application/pkcs8";
    CSRATTRS 285 "application/csrattrs";
    PKCS10 286 "application/pkcs10";
    PKIX_CERT 287 "application/pkix-cert";
    AIF_CBOR 290 "application/aif+cbor";
    AIF_JSON 291 "application/aif+json";
    SENML_XML 310 "application/senml+xml";
    SENSML_XML 311 "application/sensml+xml";
    SENML_ETCH_JSON 320 "application/senml-etch+json";
    SENML_ETCH_CBOR 322 "application/senml-etch+cbor";
    YANG_DATA 340 "application/yang-data+cbor";
    YANG_DATA_NAME 341 "application/yang-data+cbor;id=name";
    THING_DESCRIPTION 432 "application/td+json";
    THING_MODEL 433 "application/tm+json";
    OCF 10_000 "application/vnd.ocf+cbor";
    OSCORE 10_001 "application/oscore";
    JAVASCRIPT 10_002 "application/javascript";
    JSON_DEFLATE 11_050 "application/json";
    CBOR_DEFLATE 11_060 "application/cbor";
    LWM2M_TLV 11_542 "application/vnd.oma.lwm2m+tlv";
    LWM2M_JSON 11_543 "application/vnd.oma.lwm2m+json";
    LWM2M_CBOR 11_544 "application/vnd.oma.lwm2m+cbor";
    CSS 20_000 "text/css";
    SVG 30_000 "image/svg+xml";
}

/// Media type of a number; `None` for an unknown one. See [`content_coding`] for the coding that some numbers imply.
pub fn media_type(number: u16) -> Option<&'static str> {
    let at = TABLE
        .binary_search_by_key(&number, |(number, _)| *number)
        .ok()?;
    TABLE.get(at).map(|(_, media_type)| *media_type)
}

/// Compression of the payload, if the number implies one.
pub const fn content_coding(number: u16) -> Option<&'static str> {
    match number {
        JSON_DEFLATE | CBOR_DEFLATE => Some("deflate"),
        _ => None,
    }
}

/// The number of a media type without a content coding. Upper case and spaces around semicolons make no difference, and
/// `charset=utf-8`, which all texts here are, may be there or not. RFC 9110 §8.3.1
pub fn number(media_type: &str) -> Option<u16> {
    let same = |known: &str| without_charset(known).eq(without_charset(media_type));
    TABLE
        .iter()
        .find(|(_, known)| same(known))
        .map(|(number, _)| *number)
}

/// The characters that make a difference between media types.
fn without_charset(media_type: &str) -> impl Iterator<Item = char> {
    let parts = media_type
        .split(';')
        .map(str::trim)
        .filter(|part| !is_utf8(part) && !part.is_empty());
    parts.enumerate().flat_map(|(at, part)| {
        let separator = (at > 0).then_some(';');
        separator.into_iter().chain(
            part.chars()
                .filter(|c| *c != '"')
                .map(|c| c.to_ascii_lowercase()),
        )
    })
}

fn is_utf8(parameter: &str) -> bool {
    parameter.split_once('=').is_some_and(|(name, value)| {
        name.trim().eq_ignore_ascii_case("charset")
            && value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_leads_back() {
        assert!(TABLE.is_sorted_by(|(a, _), (b, _)| a < b));
        for (format, text) in TABLE {
            assert_eq!(media_type(*format), Some(*text));
            if content_coding(*format).is_none() {
                assert_eq!(number(text), Some(*format), "{text}");
            }
        }
        assert_eq!(media_type(1), None);
    }

    #[test]
    fn media_types_are_found_however_they_are_written() {
        for text in [
            "text/plain",
            "Text/Plain; charset=UTF-8",
            "text/plain;charset=\"utf-8\"",
            "text/plain;",
        ] {
            assert_eq!(number(text), Some(TEXT_PLAIN), "{text}");
        }
        assert_eq!(number("application/json; charset=utf-8"), Some(JSON));
        assert_eq!(
            number("application/cose; cose-type=cose-mac"),
            Some(COSE_MAC)
        );
        for text in [
            "text/plain; charset=latin1",
            "application/cose",
            "",
            "application/jsonx",
            "application/js",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
