//! Foreign clients through one broker: which library is asked what.
//!
//! The tests need installed libraries, so plain `cargo test` leaves them out; `cargo xtask interop` installs and runs them.
//! `THALWEG_TEST_BROKER=mosquitto cargo xtask interop` shows that the checks ask for nothing that another broker refuses.

mod agent;
mod cells;
mod checks;
mod coap_tool;
mod coap_transports;
mod command_line;
mod endpoint;
mod filters;
mod foreign_servers;
mod groups;
mod lossy;
mod matrix;
mod multicast;
mod oracle;
mod protocol;
mod pubsub;
mod puppet;
mod queues;
mod rabbitmq;
mod relay;
mod reliability;
mod requests;
mod speaker;
mod waiting;
mod workers;
mod xmpp;
mod zeromq;

use puppet::Library;

/// A module per library, below it one per protocol version, below it a test per check.
macro_rules! libraries {
    ($($library:ident as $module:ident { $($version_name:ident = $version:literal: $($check:ident)*;)* } over { $($transport:ident = $over:literal $level:literal;)* })*) => {
        $(mod $module {
            use super::{Library, checks};

            $(mod $version_name {
                use super::{Library, checks};

                $(#[test]
                #[ignore = "needs foreign clients: cargo xtask interop"]
                fn $check() {
                    checks::$check(Library::$library, $version);
                })*
            })*

            $(#[test]
            #[ignore = "needs foreign clients: cargo xtask interop"]
            fn $transport() {
                checks::other_transports_carry_the_same(Library::$library, $level, $over);
            })*
        })*
    };
}

libraries! {
    PahoPython as paho_python {
        mqtt31 = 3:
            wildcards_match_what_they_should payloads_arrive_exactly_at_each_qos
            retained_messages_are_kept_given_and_cleared wills_follow_a_lost_connection_only
            sessions_resume_with_what_was_queued;
        mqtt311 = 4:
            wildcards_match_what_they_should payloads_arrive_exactly_at_each_qos the_lower_qos_wins
            retained_messages_are_kept_given_and_cleared wills_follow_a_lost_connection_only
            sessions_resume_with_what_was_queued a_second_connection_takes_over shared_subscriptions_balance;
        mqtt5 = 5:
            wildcards_match_what_they_should payloads_arrive_exactly_at_each_qos the_lower_qos_wins
            retained_messages_are_kept_given_and_cleared wills_follow_a_lost_connection_only
            sessions_resume_with_what_was_queued a_second_connection_takes_over shared_subscriptions_balance
            properties_travel_unchanged message_expiry_counts_down subscription_identifiers_come_back
            topic_aliases_stand_for_topics subscription_options_hold reason_codes_tell;
    } over {
        tls = "tls" 5;
        websocket = "ws" 4;
        secure_websocket = "wss" 5;
    }
    Gmqtt as gmqtt {
        mqtt311 = 4:
            wildcards_match_what_they_should payloads_arrive_exactly_at_each_qos the_lower_qos_wins
            retained_messages_are_kept_given_and_cleared wills_follow_a_lost_connection_only
            sessions_resume_with_what_was_queued a_second_connection_takes_over shared_subscriptions_balance;
        mqtt5 = 5:
            wildcards_match_what_they_should payloads_arrive_exactly_at_each_qos the_lower_qos_wins
            retained_messages_are_kept_given_and_cleared wills_follow_a_lost_connection_only
            sessions_resume_with_what_was_queued a_second_connection_takes_over shared_subscriptions_balance
            properties_travel_unchanged message_expiry_counts_down subscription_identifiers_come_back
            topic_aliases_stand_for_topics aliases_from_the_broker_are_understood subscription_options_hold
            reason_codes_tell;
    } over {
        tls = "tls" 5;
    }
    Mqttjs as mqttjs {
        mqtt31 = 3:
            wildcards_match_what_they_should payloads_arrive_exactly_at_each_qos
            retained_messages_are_kept_given_and_cleared wills_follow_a_lost_connection_only
            sessions_resume_with_what_was_queued;
        mqtt311 = 4:
            wildcards_match_what_they_should payloads_arrive_exactly_at_each_qos the_lower_qos_wins
            retained_messages_are_kept_given_and_cleared wills_follow_a_lost_connection_only
            sessions_resume_with_what_was_queued a_second_connection_takes_over shared_subscriptions_balance;
        mqtt5 = 5:
            wildcards_match_what_they_should payloads_arrive_exactly_at_each_qos the_lower_qos_wins
            retained_messages_are_kept_given_and_cleared wills_follow_a_lost_connection_only
            sessions_resume_with_what_was_queued a_second_connection_takes_over shared_subscriptions_balance
            properties_travel_unchanged message_expiry_counts_down subscription_identifiers_come_back
            topic_aliases_stand_for_topics aliases_from_the_broker_are_understood subscription_options_hold
            reason_codes_tell;
    } over {
        tls = "tls" 5;
        websocket = "ws" 5;
        secure_websocket = "wss" 4;
    }
    Hivemq as hivemq {
        mqtt311 = 4:
            wildcards_match_what_they_should payloads_arrive_exactly_at_each_qos the_lower_qos_wins
            retained_messages_are_kept_given_and_cleared wills_follow_a_lost_connection_only
            sessions_resume_with_what_was_queued a_second_connection_takes_over shared_subscriptions_balance;
        mqtt5 = 5:
            wildcards_match_what_they_should payloads_arrive_exactly_at_each_qos the_lower_qos_wins
            retained_messages_are_kept_given_and_cleared wills_follow_a_lost_connection_only
            sessions_resume_with_what_was_queued a_second_connection_takes_over shared_subscriptions_balance
            properties_travel_unchanged message_expiry_counts_down aliases_from_the_broker_are_understood
            subscription_options_hold reason_codes_tell;
    } over {
        tls = "tls" 5;
    }
    PahoGo3 as paho_go3 {
        mqtt31 = 3:
            wildcards_match_what_they_should payloads_arrive_exactly_at_each_qos
            retained_messages_are_kept_given_and_cleared wills_follow_a_lost_connection_only
            sessions_resume_with_what_was_queued;
        mqtt311 = 4:
            wildcards_match_what_they_should payloads_arrive_exactly_at_each_qos the_lower_qos_wins
            retained_messages_are_kept_given_and_cleared wills_follow_a_lost_connection_only
            sessions_resume_with_what_was_queued a_second_connection_takes_over shared_subscriptions_balance;
    } over {
        tls = "tls" 4;
        websocket = "ws" 4;
        secure_websocket = "wss" 4;
    }
    PahoGo5 as paho_go5 {
        mqtt5 = 5:
            wildcards_match_what_they_should payloads_arrive_exactly_at_each_qos the_lower_qos_wins
            retained_messages_are_kept_given_and_cleared wills_follow_a_lost_connection_only
            sessions_resume_with_what_was_queued a_second_connection_takes_over shared_subscriptions_balance
            properties_travel_unchanged message_expiry_counts_down subscription_identifiers_come_back
            topic_aliases_stand_for_topics subscription_options_hold reason_codes_tell;
    } over {
        tls = "tls" 5;
    }
}
