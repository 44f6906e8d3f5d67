//! The table of rights: every path from a publisher to a receiver, whatever their protocols and whoever set it up,
//! times every reason to deny it. Each path is first shown to deliver when nothing is denied.

mod client;
mod paths;
mod table;
mod verbs;
mod world;

use paths::Builder;
use table::Count;

#[test]
fn nothing_gets_through_that_the_operator_led() {
    table::check(
        Builder::Operator,
        Count {
            ways: 17799,
            rows: 44338,
        },
    );
}

#[test]
fn nothing_gets_through_that_its_receiver_led_to_itself() {
    table::check(
        Builder::Receiver,
        Count {
            ways: 7791,
            rows: 15168,
        },
    );
}

#[test]
fn nothing_gets_through_that_its_publisher_led_elsewhere() {
    table::check(
        Builder::Publisher,
        Count {
            ways: 4499,
            rows: 6236,
        },
    );
}
