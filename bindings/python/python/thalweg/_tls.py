"""What can be taken over from an ``ssl.SSLContext``. TLS is rustls' here: a context of OpenSSL cannot be used as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

if TYPE_CHECKING:
    import ssl


def authorities_of(context: ssl.SSLContext) -> List[bytes]:
    """The authorities that a context trusts, DER; none if it checks nothing.

    :raises ValueError: it says something that cannot be taken over.
    """
    import ssl

    if not isinstance(context, ssl.SSLContext):
        raise TypeError(f"ssl_context is an ssl.SSLContext, not {type(context).__name__}")
    if context.protocol == ssl.PROTOCOL_TLS_SERVER:
        raise ValueError("ssl_context is for servers: ssl.create_default_context() makes one for clients")
    usual = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    no_version = ssl.OP_NO_TLSv1_2 | ssl.OP_NO_TLSv1_3
    if (
        context.minimum_version == ssl.TLSVersion.TLSv1_3
        or context.maximum_version not in (ssl.TLSVersion.MAXIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_3)
        or context.options & no_version
    ):
        raise ValueError("ssl_context chooses versions of TLS: TLS 1.2 and 1.3 are spoken here, and neither can be left out")
    if [it["name"] for it in context.get_ciphers()] != [it["name"] for it in usual.get_ciphers()]:
        raise ValueError("ssl_context chooses ciphers: they cannot be taken over")
    if context.verify_flags & (ssl.VERIFY_CRL_CHECK_LEAF | ssl.VERIFY_CRL_CHECK_CHAIN):
        raise ValueError("ssl_context checks lists of revoked certificates: they cannot be taken over")
    if context.verify_mode == ssl.CERT_NONE:
        return []
    if not context.check_hostname:
        raise ValueError("ssl_context checks certificates but not names: here both are checked, or neither")
    authorities = context.get_ca_certs(binary_form=True)
    if not authorities:
        raise ValueError(
            "ssl_context has no authorities that can be read (those in a folder cannot): "
            "load_verify_locations(cafile=...), or leave ssl_context out for the system's"
        )
    return authorities
