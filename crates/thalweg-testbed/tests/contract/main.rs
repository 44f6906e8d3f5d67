//! Requirements on every protocol, whatever its frames look like: each test runs over all of them. A new front is added
//! to [`peer::Protocol`] and must then pass.

mod access;
mod arguments;
mod bytes;
mod credit;
mod depth;
mod elsewhere;
mod filters;
mod kills;
mod limits;
mod log_in;
mod memory;
mod names;
mod peer;
mod place;
mod policies;
mod rates;
mod read;
mod rehome;
mod restart;
mod restart_flags;
mod settlement;
mod ways;
mod xmpp;
mod xmpp_availability;
mod xmpp_bounds;
mod xmpp_chat;
mod xmpp_nodes;
mod xmpp_personal;
mod xmpp_presence;
mod xmpp_requests;
mod xmpp_resumption;
mod zmtp;
mod zmtp_access;
mod zmtp_requests;
mod zmtp_runs;
