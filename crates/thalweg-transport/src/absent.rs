//! A layer that this build is without: there is no value of it, so nothing of it is linked.
#![allow(dead_code)]

use std::sync::Arc;

use crate::{CHANNEL_BINDING_BYTES, TransportFault};

#[derive(Debug)]
pub enum Absent {}

impl Absent {
    pub(crate) fn handle_input(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), TransportFault> {
        match *self {}
    }

    pub(crate) fn encode(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), TransportFault> {
        match *self {}
    }

    pub(crate) fn take_output(&mut self, _: &mut Vec<u8>) {
        match *self {}
    }

    pub(crate) fn buffered(&self) -> usize {
        match *self {}
    }

    pub(crate) fn is_closed(&self) -> bool {
        match *self {}
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        match *self {}
    }

    pub(crate) fn close(&mut self, _: &mut Vec<u8>) {
        match *self {}
    }

    pub(crate) fn channel_binding(&self) -> Option<[u8; CHANNEL_BINDING_BYTES]> {
        match *self {}
    }

    pub(crate) fn certificate_name(&self) -> Option<Arc<str>> {
        match *self {}
    }

    pub(crate) fn sub_protocol(&self) -> Option<&str> {
        match *self {}
    }
}
