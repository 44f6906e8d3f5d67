//! The table of rights: every way from a publisher to a receiver, whatever protocols they speak and whoever laid it, times
//! every reason why it should not be passable. Each way is first shown to deliver when nothing is denied.

mod client;
mod paths;
mod table;
mod world;

use paths::Builder;
use table::Count;

#[test]
fn nothing_gets_through_that_the_operator_led() {
    table::check(
        Builder::Operator,
        Count {
            ways: 6969,
            rows: 17695,
        },
    );
}

#[test]
fn nothing_gets_through_that_its_receiver_led_to_itself() {
    table::check(
        Builder::Receiver,
        Count {
            ways: 2932,
            rows: 5832,
        },
    );
}

#[test]
fn nothing_gets_through_that_its_publisher_led_elsewhere() {
    table::check(
        Builder::Publisher,
        Count {
            ways: 1803,
            rows: 2485,
        },
    );
}
