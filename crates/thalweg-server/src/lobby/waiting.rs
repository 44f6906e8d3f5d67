//! One connection in the lobby: PROXY header, then TLS and WebSocket, then protocol bytes until the key is known.
