//! Groups: which of the members that share a filter gets the next message. The store is [`store::Groups`].

pub(crate) mod balance;
pub(crate) mod eviction;
pub(crate) mod explain;
pub(crate) mod feed;
pub(crate) mod given_back;
pub(crate) mod group;
pub(crate) mod join;
pub(crate) mod leavers;
pub(crate) mod offer;
pub(crate) mod ordered;
pub(crate) mod pass;
pub(crate) mod policy;
pub(crate) mod returned;
pub(crate) mod rights;
pub(crate) mod seating;
pub(crate) mod seats;
pub(crate) mod selected;
pub(crate) mod store;
pub(crate) mod view;
pub(crate) mod work_terms;
