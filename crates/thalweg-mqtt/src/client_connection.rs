//! A client's side with the bytes of its connection, for programs that see every packet. No socket.

use crate::{
    ClientEvent, ClientSide, ConnectOut, PeerFault, PublishError, PublishOut, QoS,
    SubscribeOptions, SubscribeOut, TooLarge,
};

/// A client's side, the bytes that came and are no whole packet yet, and those to be sent.
#[derive(Debug)]
pub struct ClientConnection {
    /// The machine. What it appends belongs behind [`ClientConnection::out`].
    pub side: ClientSide,
    /// Bytes to be sent.
    pub out: Vec<u8>,
    inbox: Vec<u8>,
    has_more: bool,
}

/// What becomes of an event: whether to go on with the next one. It may answer through the machine.
pub type OnEvent<'a, E> =
    dyn FnMut(&mut ClientSide, &mut Vec<u8>, ClientEvent<'_>) -> Result<bool, E> + 'a;

impl ClientConnection {
    /// A connection on which CONNECT is the first to be sent. A broker may send more than the Receive Maximum: not all keep
    /// to it, and there is room.
    pub fn open(hello: &ConnectOut<'_>) -> Result<ClientConnection, TooLarge> {
        let (mut side, mut out) = (ClientSide::new(PACKET_BYTES_MAX), Vec::new());
        side.connect(hello, &mut out)?;
        side.tolerate_excess();
        Ok(ClientConnection {
            side,
            out,
            inbox: Vec::new(),
            has_more: false,
        })
    }

    /// Subscribes to filters in one packet. With no free identifier nothing is sent.
    pub fn subscribe(&mut self, filters: &[(&str, SubscribeOptions)]) -> Result<(), TooLarge> {
        let Some(id) = self.side.next_id() else {
            return Ok(());
        };
        let subscribe = SubscribeOut {
            id,
            filters,
            ..SubscribeOut::default()
        };
        self.side.subscribe(&subscribe, &mut self.out)
    }

    /// Publishes; false if the server's Receive Maximum is used up.
    pub fn publish(&mut self, topic: &str, payload: &[u8], qos: QoS) -> Result<bool, PublishError> {
        let mut id = 0;
        if qos != QoS::AtMostOnce {
            let free = (self.side.send_quota() > 0).then(|| self.side.next_id());
            match free.flatten() {
                Some(free) => id = free,
                None => return Ok(false),
            }
        }
        let message = PublishOut {
            qos,
            topic,
            id,
            payload,
            ..PublishOut::default()
        };
        self.side.publish(&message, &mut self.out)?;
        Ok(true)
    }

    /// Whether whole packets may wait that no event handler has seen, as one wanted to go on later.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Takes bytes that came, and shows the packets in them and in those before. Ends at a fault of the server, which is
    /// answered, or when `on` does not go on; what it has not seen is kept.
    pub fn receive<E>(
        &mut self,
        bytes: &[u8],
        on: &mut OnEvent<'_, E>,
        fault: impl Fn(PeerFault) -> E,
    ) -> Result<(), E> {
        let ClientConnection {
            side,
            out,
            inbox,
            has_more,
        } = self;
        // Most reads are whole packets: they are not copied.
        let is_direct = inbox.is_empty();
        if !is_direct {
            inbox.extend_from_slice(bytes);
        }
        let input = if is_direct { bytes } else { inbox.as_slice() };
        let (mut used, mut result) = (0, Ok(true));
        while let Ok(true) = result {
            match side.handle_input(input.get(used..).unwrap_or_default()) {
                Ok(Some((count, event))) => {
                    used += count;
                    result = on(side, out, event);
                }
                Ok(None) => break,
                Err(broken) => {
                    side.fault(&broken, out);
                    result = Err(fault(broken));
                }
            }
        }
        match is_direct {
            true => inbox.extend_from_slice(bytes.get(used..).unwrap_or_default()),
            false => drop(inbox.drain(..used)),
        }
        *has_more = matches!(result, Ok(false)) && !inbox.is_empty();
        result.map(drop)
    }
}

/// Largest packet taken: what MQTT can express.
const PACKET_BYTES_MAX: u32 = 268_435_460;
