//! Tests of both ends.

mod bytewise;
mod elements;
mod jids;
mod limits;
mod mutations;
mod properties;
mod streams;
mod transcripts;
mod whole;

use crate::*;

fn limits() -> Limits {
    Limits {
        handshake_bytes_max: 600,
        stanza_bytes_max: 1000,
        token_bytes_max: 200,
        depth_max: 6,
        attributes_max: 8,
        elements_max: 20,
    }
}

/// Text and elements of one document.
fn parse<'b>(text: &'b str, tree: &'b mut Tree) -> Element<'b> {
    parse_document(text.as_bytes(), &Limits::default(), tree).unwrap_or_else(|| panic!("{text}"))
}

/// Answers events of a server so that every peer gets as far as it can: what its application would do.
fn serve(server: &mut ServerSide, event: &ServerEvent<'_>, out: &mut Vec<u8>) {
    match event {
        ServerEvent::Open(header) => {
            let domain = header.to.as_deref().unwrap_or("im.example.com");
            server.open("stream", domain, out);
        }
        ServerEvent::StartTls => {
            server.proceed(out);
            let offered = [Mechanism::ScramSha1, Mechanism::Plain];
            server.set_mechanisms(offered.into_iter().collect());
            server.secured();
        }
        ServerEvent::Login { message: None, .. } => server.challenge(b"", out),
        ServerEvent::Login {
            mechanism: Mechanism::ScramSha1 | Mechanism::ScramSha256,
            ..
        } => {
            server.challenge(b"r=oMsTAAwAAAAMAAAANP0TAAAAAABPU0AAe124695b-69a9-4de6-9c30-b51b3808c59e,s=NjhkYTM0MDgtNGY0Zi00NjdmLTkxMmUtNDlmNTNmNDNkMDMz,i=4096", out);
        }
        ServerEvent::Login {
            mechanism: Mechanism::Plain,
            message: Some(message),
        } => match Plain::decode(message) {
            Some(plain) if plain.password == "r0m30myr0m30" => server.success(None, out),
            Some(_) => server.failure(SaslFailure::NotAuthorized, out),
            None => server.failure(SaslFailure::MalformedRequest, out),
        },
        ServerEvent::Login { .. } => server.success(None, out),
        ServerEvent::Response(_) => server.success(Some(b"v=pNNDFVEQxuXxCoSEiW8GEZ+1RSo="), out),
        ServerEvent::Bind(resource) => {
            let resource = resource.as_deref().unwrap_or("balcony");
            match Jid::new(Some("juliet"), "im.example.com", Some(resource)) {
                Ok(jid) => server.bound(jid, out),
                Err(_) => {
                    server.bind_refused(StanzaError::new(ErrorType::Modify, "bad-request"), out)
                }
            }
        }
        ServerEvent::Resume { .. } => server.resume_failed(out),
        ServerEvent::Enable { resume } => server.enabled(resume.then_some("sm-1"), 300, out),
        ServerEvent::Closed => server.close(out),
        ServerEvent::Consumed
        | ServerEvent::Aborted
        | ServerEvent::Acknowledged(_)
        | ServerEvent::Stanza(_) => {}
    }
}

/// Events and output of a machine that gets `input`, of which the first `cuts[0]` octets arrive first and so on.
fn feed<M>(
    machine: &mut M,
    input: &[u8],
    cuts: &[usize],
    mut step: impl FnMut(&mut M, &[u8], &mut Vec<u8>) -> Result<Option<(usize, String)>, PeerFault>,
) -> (Vec<String>, Vec<u8>) {
    let (mut events, mut out, mut from) = (Vec::new(), Vec::new(), 0);
    for &until in cuts {
        loop {
            match step(machine, &input[from..until], &mut out) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                    // Spaces come in as many pieces as there are.
                    if event != "Consumed" {
                        events.push(event);
                    }
                }
                Ok(None) => break,
                Err(fault) => {
                    events.push(fault.to_string());
                    return (events, out);
                }
            }
        }
    }
    (events, out)
}

fn server_hears(settings: &ServerSettings, input: &[u8], cuts: &[usize]) -> (Vec<String>, Vec<u8>) {
    let mut server = ServerSide::new(settings.clone());
    let mut tree = Tree::default();
    feed(&mut server, input, cuts, |server, bytes, out| {
        let step = server.handle_input(bytes, &mut tree, out)?;
        Ok(step.map(|(len, event)| {
            serve(server, &event, out);
            (len, format!("{event:?}"))
        }))
    })
}

fn client_hears(settings: &ClientSettings, input: &[u8], cuts: &[usize]) -> (Vec<String>, Vec<u8>) {
    let mut client = ClientSide::new(settings.clone());
    let mut tree = Tree::default();
    let mut first = Vec::new();
    client.open(&mut first);
    feed(&mut client, input, cuts, |client, bytes, out| {
        let step = client.handle_input(bytes, &mut tree, out)?;
        Ok(step.map(|(len, event)| {
            if matches!(event, ClientEvent::StartTls) {
                client.secured(out);
            }
            (len, format!("{event:?}"))
        }))
    })
}
