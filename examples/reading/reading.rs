use thalweg_client::{Client, ClientError, Options, Reliability, Success};

fn main() -> Result<(), ClientError> {
    let client = Client::builder()
        .broker("mqtt://127.0.0.1")? // two ways to one broker: it takes the one
        .broker("coap://127.0.0.1")? // that serves the objective on this network
        .connect_blocking()?;
    let mut plant = client.subscribe("plant/#", Default::default())?;
    let once = Options {
        reliability: Reliability::ExactlyOnce,
        ..Options::default()
    };
    let ticket = client.publish_message(b"21.5", "", "plant/1/temperature", &once)?;
    let reading = plant.next().expect("the subscription stands");
    println!("{} {}", reading.topic(), reading.payload().escape_ascii());
    assert_eq!(
        client.outcome(ticket, std::time::Duration::from_secs(10)),
        Success::Acknowledged
    );
    println!("{}", client.explain()?);
    client.close(std::time::Duration::from_secs(1))
}
