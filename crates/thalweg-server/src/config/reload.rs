//! What a running broker can take over from a changed configuration.

use super::keys::Reload;
use super::load::put;
use super::settings::Config;

impl Config {
    /// This configuration as far as a broker that runs with `running` can take it over: keys that apply after a
    /// restart keep their running values. A listener that comes or goes does so whole.
    pub fn within_run_of(self, running: &Config) -> Config {
        let is_open =
            |config: &Config, name| config.listeners.get(name).is_some_and(|it| it.enabled);
        let stays = |name| is_open(&self, name) && is_open(running, name);
        let mut tree = self.tree();
        for entry in running.entries() {
            if entry.key.reload == Reload::Restart && entry.listener.is_none_or(stays) {
                put(&mut tree, &entry.name, entry.value);
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
