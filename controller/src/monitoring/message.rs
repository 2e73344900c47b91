//! Routes of one table put together to UPDATEs, as many of equal attributes as one message takes. Knows
//! no connection and no source of routes.

use bytes::Bytes;
use weft_bgp::attribute::Attributes;
use weft_bgp::family::Family;
use weft_bgp::frame::MAX_LEN;
use weft_bgp::wire::Writer;
use weft_monitoring::update::{self, Unsayable};

/// Messages of one family in the order in which the routes came.
#[derive(Debug)]
pub(super) struct Messages {
    family: Family,
    messages: Vec<Bytes>,
    withdrawn: Writer,
}

impl Messages {
    /// None yet.
    pub(super) fn new(family: Family) -> Self {
        Self {
            family,
            messages: Vec::new(),
            withdrawn: Writer::new(),
        }
    }

    /// Announces these NLRI, each in octets, with attributes that they have in common.
    pub(super) fn announce<'n>(
        &mut self,
        attributes: &Attributes,
        nlri: impl IntoIterator<Item = &'n [u8]>,
    ) {
        let mut field = Writer::new();
        for nlri in nlri {
            if field.len() + nlri.len() > FIELD_OCTETS_MAX {
                self.say(attributes, std::mem::take(&mut field));
            }
            field.slice(nlri);
        }
        self.say(attributes, field);
    }

    fn say(&mut self, attributes: &Attributes, field: Writer) {
        if field.is_empty() {
            return;
        }
        match update::announcement(self.family, field.finish(), attributes) {
            Ok(message) => self.messages.push(message),
            // It cannot have been received or be sent in a message either.
            Err(Unsayable::TooLong | Unsayable::NoNextHop) => {}
        }
    }

    /// Withdraws an NLRI that `write` writes.
    pub(super) fn withdraw(&mut self, write: impl FnOnce(&mut Writer)) {
        write(&mut self.withdrawn);
        if self.withdrawn.len() > FIELD_OCTETS_MAX {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let field = std::mem::take(&mut self.withdrawn);
        if !field.is_empty() {
            let message = update::withdrawal(self.family, field.finish());
            self.messages.extend(message.ok());
        }
    }

    /// All of them. What was withdrawn is not among what was announced, so that their order does not
    /// matter.
    pub(super) fn finish(mut self) -> Vec<Bytes> {
        self.flush();
        self.messages
    }
}

/// With attributes it stays below what a message of RFC 4271 takes, in most fabrics.
const FIELD_OCTETS_MAX: usize = MAX_LEN as usize - 1_024;
