//! Layers between a lane's socket and its protocol: TLS and WebSocket, as far as this build has them.

#[cfg(feature = "dtls")]
use ring::rand::{SecureRandom, SystemRandom};
use thalweg_model::Time;
use thalweg_transport::Transport as Filters;

use crate::builder::{ClientBuilder, TlsFiles};
use crate::client::ClientError;
use crate::transport::{Endpoint, Medium};

#[cfg(feature = "dtls")]
pub(super) use thalweg_dtls::ClientSide as DtlsClient;

/// DTLS in a build that is without: there is no value of it, so nothing of it is linked.
#[cfg(not(feature = "dtls"))]
pub(super) enum DtlsClient {}

#[cfg(not(feature = "dtls"))]
impl DtlsClient {
    pub(super) fn take_datagram(&mut self) -> Option<Vec<u8>> {
        match *self {}
    }

    pub(super) fn is_open(&self) -> bool {
        match *self {}
    }

    pub(super) fn is_closed(&self) -> bool {
        match *self {}
    }

    pub(super) fn poll_timeout(&self) -> Time {
        match *self {}
    }

    pub(super) fn handle_timeout(&mut self, _: Time) {
        match *self {}
    }

    pub(super) fn handle_datagram(
        &mut self,
        _: &[u8],
        _: Time,
        _: &mut dyn FnMut(&[u8]),
    ) -> Result<(), String> {
        match *self {}
    }

    pub(super) fn encode(&mut self, _: &[u8], _: &mut Vec<u8>) {
        match *self {}
    }

    pub(super) fn close(&mut self, _: &mut Vec<u8>) {
        match *self {}
    }
}

/// Makes the filters of connections.
pub(super) struct Security {
    /// Identity and key for DTLS.
    #[cfg(feature = "dtls")]
    psk: Option<(String, Vec<u8>)>,
    #[cfg(feature = "tls")]
    tls: Option<thalweg_transport::client::TlsConnector>,
    #[cfg(not(feature = "tls"))]
    _files: TlsFiles,
}

impl Security {
    /// Reads the files, if any of the endpoints needs TLS or may do so later.
    pub(super) fn new(builder: &ClientBuilder, is_needed: bool) -> Result<Security, ClientError> {
        let files = &builder.tls;
        #[cfg(feature = "tls")]
        {
            let files_of_client = thalweg_transport::client::TlsClientFiles {
                ca: files.ca.clone(),
                authorities: files.authorities.clone(),
                identity: files.identity.clone(),
                insecure: files.insecure,
            };
            let tls = match thalweg_transport::client::TlsConnector::new(&files_of_client) {
                Ok(connector) => Some(connector),
                // A system without certificate authorities is an error only for clients that use TLS.
                Err(_) if !is_needed && *files == TlsFiles::default() => None,
                Err(fault) => return Err(ClientError::Settings(fault.to_string())),
            };
            Ok(Security {
                #[cfg(feature = "dtls")]
                psk: builder.psk.clone(),
                tls,
            })
        }
        #[cfg(not(feature = "tls"))]
        {
            let _ = is_needed;
            Ok(Security {
                #[cfg(feature = "dtls")]
                psk: builder.psk.clone(),
                _files: files.clone(),
            })
        }
    }

    /// DTLS for one connection; none if it needs none.
    pub(super) fn dtls(
        &self,
        endpoint: &Endpoint,
        now: Time,
    ) -> Result<Option<Box<DtlsClient>>, String> {
        if endpoint.medium != Medium::Datagrams || !endpoint.is_encrypted {
            return Ok(None);
        }
        #[cfg(feature = "dtls")]
        match &self.psk {
            None => Err(
                "DTLS needs an identity and a key here; certificates are not spoken over it"
                    .to_owned(),
            ),
            Some((identity, key)) => {
                let mut random = [0; 32];
                SystemRandom::new()
                    .fill(&mut random)
                    .map_err(|_| "the system has no randomness".to_owned())?;
                let client = DtlsClient::new(identity.as_bytes(), key, random, now);
                client
                    .map(|client| Some(Box::new(client)))
                    .map_err(|fault| fault.to_string())
            }
        }
        #[cfg(not(feature = "dtls"))]
        {
            let _ = now;
            Err("this build does not speak DTLS".to_owned())
        }
    }

    /// The filters of one connection over a stream.
    pub(super) fn filters(&self, endpoint: &Endpoint) -> Result<Filters, String> {
        if endpoint.medium == Medium::Datagrams {
            return Ok(Filters::Plain);
        }
        #[cfg(feature = "tls")]
        let tls = match (endpoint.is_encrypted, &self.tls) {
            (false, _) => None,
            (true, Some(connector)) => Some(
                connector
                    .connect(&endpoint.host)
                    .map_err(|fault| fault.to_string())?,
            ),
            (true, None) => {
                return Err("this system has no bundle of authorities: name a CA file".to_owned());
            }
        };
        #[cfg(not(feature = "tls"))]
        let tls = match endpoint.is_encrypted {
            false => None,
            true => return Err("this build does not speak TLS".to_owned()),
        };
        #[cfg(feature = "websocket")]
        let websocket = endpoint.websocket.as_ref().map(|(path, sub_protocol)| {
            use thalweg_transport::websocket::{Messages, WebSocketSettings};
            let settings = WebSocketSettings {
                messages: match *sub_protocol {
                    "coap" => Messages::Whole,
                    "xmpp" => Messages::Text,
                    _ => Messages::Parts,
                },
                allows_text: sub_protocol.ends_with("stomp"),
                ..Default::default()
            };
            thalweg_transport::client::websocket(
                &endpoint.host_header(),
                path,
                sub_protocol,
                &settings.into(),
            )
        });
        #[cfg(not(feature = "websocket"))]
        let websocket = match &endpoint.websocket {
            None => None,
            Some(_) => return Err("this build does not speak WebSocket".to_owned()),
        };
        Ok(thalweg_transport::Filtered::stack(tls, websocket))
    }
}
