//! The broker's behaviour in one situation each, over fronts and kernels in memory. `tests/sim` mixes all of it at
//! random.

mod world;

mod access;
mod durability;
mod group_meetings;
mod groups;
mod limits;
mod load;
mod long_queues;
mod moves;
mod retained;
mod sessions;
mod subscriptions;
mod wills;
