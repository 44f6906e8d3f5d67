//! Maps about topics, from peers. Whatever is read can be written and is read the same; changes keep what cannot change.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_coap::pubsub::{Configuration, Selection, TopicFilter};

fuzz_target!(|input: &[u8]| {
    let Some((first, second)) = input
        .split_first()
        .and_then(|(at, rest)| rest.split_at_checked(usize::from(*at)))
    else {
        return;
    };
    let selection = Selection::decode(second);
    let filter = TopicFilter::decode(second);
    let Ok(topic) = Configuration::decode(first) else {
        return;
    };
    let mut written = Vec::new();
    topic.encode(&mut written);
    assert_eq!(Configuration::decode(&written).as_ref(), Ok(&topic));
    assert!(TopicFilter::decode(&written).is_ok_and(|itself| itself.matches(&topic)));
    for changed in [topic.replaced_by(second), topic.patched_by(second)]
        .into_iter()
        .flatten()
    {
        assert_eq!((&changed.name, &changed.data), (&topic.name, &topic.data));
        assert_eq!(changed.resource_type, topic.resource_type);
    }
    if let Ok(selection) = selection {
        written.clear();
        topic.encode_selected(selection, &mut written);
    }
    if let Ok(filter) = filter {
        filter.matches(&topic);
    }
});
