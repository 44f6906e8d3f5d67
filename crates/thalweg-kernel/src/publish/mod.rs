//! A message comes in: authorize, deduplicate, match, remember, enqueue or deliver, persist. Start at [`pipeline`].

mod answers;
pub(crate) mod asked;
pub(crate) mod cause;
pub(crate) mod crowd;
pub(crate) mod dedup;
pub(crate) mod deliver;
pub(crate) mod draft;
pub(crate) mod onward;
pub(crate) mod pace;
pub(crate) mod pipeline;
pub(crate) mod room;
pub(crate) mod run;
pub(crate) mod stamp_mask;
pub(crate) mod stamped;
pub(crate) mod subject;
pub(crate) mod subscriber_rate;
