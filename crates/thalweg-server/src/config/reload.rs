//! What a running broker can take over from a changed configuration.

use super::keys::{Key, Reload};
use super::load::{get, put};
use super::settings::Config;

impl Config {
    /// This configuration as far as a broker that runs with `running` can take it over: keys that apply after a
    /// restart keep their running values. A listener that comes or goes does so whole.
    pub fn within_run_of(self, running: &Config) -> Config {
        let is_open = |config: &Config, name: &str| {
            config
                .listeners
                .get(name)
                .is_some_and(|listener| listener.enabled)
        };
        let (mut tree, old) = (self.tree(), running.tree());
        for key in Key::all().filter(|key| key.reload == Reload::Restart) {
            for listener in running.places(key) {
                let name = key.full_name(listener);
                let stays =
                    listener.is_none_or(|name| is_open(&self, name) && is_open(running, name));
                if let Some(value) = get(&old, &name).filter(|_| stays) {
                    put(&mut tree, &name, value.clone());
                }
            }
        }
        // Both trees hold values of the same keys.
        let mut config = Config::of_tree(tree).unwrap_or(self);
        for (name, old) in &running.listeners {
            if let Some(new) = config.listeners.get_mut(name)
                && old.transport.is_encrypted()
                && new.tls.certificate.is_none()
            {
                // It stays encrypted until the restart that makes it a plain one.
                new.tls = old.tls.clone();
            }
        }
        config
    }
}
