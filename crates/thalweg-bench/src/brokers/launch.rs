//! How a system is started by its recipe in `systems.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::peers::clients_of_bridge;
use super::process::MEMORY;
use super::site::{Site, text_of};
use super::system::{Recipe, System, found};
use super::{Ends, NoBroker};
use crate::cell::{Carrier, Protocol, word};
use crate::net::DEVICE;

/// A command with its environment.
#[derive(Clone, Debug, Default)]
pub struct Order {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// What is added to the environment.
    pub environment: BTreeMap<String, String>,
}

/// All that is needed to start a broker.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Something that has to run beside it.
    pub before: Option<Order>,
    pub broker: Order,
    /// What it says when it is ready, besides accepting.
    pub says: Option<String>,
    /// Where it will be.
    pub addresses: BTreeMap<Protocol, Ends>,
    /// Everything it is configured by, for the record.
    pub configuration: String,
    /// A folder outside of its own, removed with it.
    pub beside: Option<PathBuf>,
    pub patience: Duration,
}

/// What fills the braces of a recipe.
#[derive(Default)]
struct Words(BTreeMap<String, String>);

impl Words {
    fn set(&mut self, name: &str, value: impl ToString) {
        self.0.insert(name.to_owned(), value.to_string());
    }

    fn fill(&self, text: &str) -> String {
        let fill = |text: String, (name, value): (&String, &String)| {
            text.replace(&format!("{{{name}}}"), value)
        };
        self.0.iter().fold(text.to_owned(), fill)
    }
}

/// Starts a system by its recipe, with what the cell needs besides.
pub fn by_recipe(system: &System, recipe: &Recipe, site: &Site<'_>) -> Result<Launch, NoBroker> {
    let program = system.program()?;
    let addresses = site.addresses()?;
    let (mut words, mut holds) = (Words::default(), BTreeSet::new());
    let (carrier, extras) = (site.cell.extras.carrier, &site.cell.extras);
    for (protocol, ends) in &addresses {
        holds.insert(word(*protocol));
        words.set(&word(*protocol), ends.publish);
        words.set(&format!("{}_port", word(*protocol)), ends.publish.port());
        words.set("publish", ends.publish);
        words.set("subscribe", ends.subscribe);
        words.set("port", ends.publish.port());
    }
    for (name, usual) in &recipe.ports {
        if !holds.contains(name) {
            let address = site.address(*usual)?;
            words.set(name, address);
            words.set(&format!("{name}_port"), address.port());
        }
    }
    if let Some((certificate, key)) = site.identity()? {
        holds.insert("encrypted".to_owned());
        words.set("certificate", certificate);
        words.set("key", key);
    }
    for (name, is_so) in [
        (
            "websocket",
            matches!(carrier, Some(Carrier::Ws | Carrier::Wss)),
        ),
        ("carried", carrier.is_some()),
        ("alarms", extras.alarms),
        ("multicast", extras.multicast),
        ("root", rustix::process::geteuid().is_root()),
        ("persistent", site.is_persistent()),
        ("at-most-once", site.cell.subscribe.qos == 0),
    ] {
        holds.extend(is_so.then(|| name.to_owned()));
    }
    words.set("host", site.host);
    words.set("client", site.client()?);
    words.set("interface", site.space.map_or("lo", |_| DEVICE));
    words.set("carrier", carrier.map(word).unwrap_or_default());
    words.set("is_persistent", site.is_persistent());
    words.set("folder", site.folder.display());
    words.set("PATH", std::env::var("PATH").unwrap_or_default());
    let home = site.path("home");
    fs::create_dir(&home)?;
    words.set("home", text_of(&home));
    // A file system in memory is as good as a store in memory, for who has none of its own.
    let memory = Path::new(MEMORY);
    let store = match !site.is_persistent() && memory.is_dir() {
        true => memory.join(site.folder.file_name().unwrap_or_default()),
        false => site.path("store"),
    };
    words.set("store", text_of(&store));
    // A client may have 65,535 messages under way (MQTT's identifiers); nats refuses a subscription with which its own could be
    // more, and counts for each what may be.
    words.set("under_way", (65_535 / site.cell.load.flows().max(1)).max(1));
    words.set("erl_libs", erlang_libraries().unwrap_or_default());
    let plugins = recipe
        .plugins
        .iter()
        .filter(|(of, _)| addresses.contains_key(of));
    let plugins: Vec<&str> = plugins.map(|(_, plugin)| plugin.as_str()).collect();
    words.set("plugins", plugins.join(","));

    let is_so = |when: &str| match when.strip_prefix("no-") {
        Some(not) => !holds.contains(not),
        None => when.is_empty() || holds.contains(when),
    };
    let of = |texts: &BTreeMap<String, String>| -> String {
        let of = texts.iter().filter(|(when, _)| when.split('+').all(is_so));
        of.map(|(_, text)| text.as_str()).collect()
    };
    let mut text = words.fill(recipe.configuration.trim_start()) + &words.fill(&of(&recipe.when));
    for (protocol, ends) in &addresses {
        // A bridge has no listener, but a broker needs one.
        let is_bridge = *protocol == Protocol::Dds;
        let listener = if is_bridge { Protocol::Mqtt } else { *protocol };
        words.set("listener", word(listener));
        words.set("address", ends.publish);
        text += &words.fill(&of(&recipe.each));
    }
    let settings = site.settings(&recipe.between);
    if recipe.set.is_none() {
        text += &settings;
    }
    for (name, text) in &recipe.files {
        site.write(name, &words.fill(text))?;
    }
    if let Some(file) = &recipe.file {
        words.set("config", site.write(file, &text)?);
    }
    let mut arguments: Vec<String> = recipe.arguments.iter().map(|it| words.fill(it)).collect();
    for (setting, set) in settings.lines().zip(recipe.set.iter().cycle()) {
        arguments.extend([set.clone(), setting.to_owned()]);
        // In the record they are what was said last.
        text += &format!("# {set} {setting}\n");
    }
    if addresses.contains_key(&Protocol::Dds) {
        text.insert_str(0, &clients_of_bridge(site)?);
    }
    if recipe.file.is_none() {
        arguments.extend(text.split_whitespace().map(str::to_owned));
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        text = format!("{name} {}\n{}", arguments.join(" "), recipe.note);
    }
    let filled = |(name, value): (&String, &String)| (name.clone(), words.fill(value));
    let environment: BTreeMap<_, _> = recipe.environment.iter().map(filled).collect();
    let before = recipe
        .before
        .split_first()
        .map(|(program, arguments)| Order {
            // It is among what the system needs.
            program: found(&[program]).unwrap_or_default(),
            arguments: arguments.iter().map(|it| words.fill(it)).collect(),
            environment: environment.clone(),
        });
    Ok(Launch {
        before,
        broker: Order {
            program,
            arguments,
            environment,
        },
        says: recipe.says.clone(),
        addresses,
        configuration: text,
        beside: Some(store),
        patience: Duration::from_secs(recipe.patience_s.unwrap_or(60)),
    })
}

/// Where the libraries of ejabberd are, which differs from one architecture to the other: its script says it.
fn erlang_libraries() -> io::Result<String> {
    let script = fs::read_to_string(found(&["ejabberdctl"]).unwrap_or_default())?;
    let line = script
        .lines()
        .find_map(|line| line.strip_prefix("ERL_LIBS="));
    Ok(line
        .unwrap_or_default()
        .trim_matches(['\'', '"'])
        .to_owned())
}
