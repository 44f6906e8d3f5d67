//! What concerns other shards: mail, members of groups there, messages under way. The store is [`store::Remote`].

pub(crate) mod aways;
pub(crate) mod group_home;
pub(crate) mod group_mail;
pub(crate) mod seat_away;
pub(crate) mod seats_away;
pub(crate) mod shards;
pub(crate) mod store;
pub(crate) mod transfer;
