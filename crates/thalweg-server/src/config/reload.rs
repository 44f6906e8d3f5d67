//! What a running broker can take over from a changed configuration.

use super::keys::{Key, Reload};
use super::settings::Config;

impl Config {
    /// This configuration as far as a broker that runs with `running` can take it over: keys that apply after a
    /// restart keep their running values. A listener that comes or goes does so whole.
    pub fn within_run_of(mut self, running: &Config) -> Config {
        let stays = |config: &Config, name: &str| {
            [config, running].iter().all(|config| {
                config
                    .listeners
                    .get(name)
                    .is_some_and(|listener| listener.enabled)
            })
        };
        for key in Key::all().filter(|key| key.reload == Reload::Restart) {
            for listener in running.places(key) {
                if listener.is_none_or(|name| stays(&self, name))
                    && let Some(value) = key.read(running, listener)
                {
                    key.land(&mut self, listener, value);
                }
            }
        }
        for (name, old) in &running.listeners {
            if let Some(new) = self.listeners.get_mut(name)
                && old.transport.is_encrypted()
                && new.tls.certificate.is_none()
            {
                // It stays encrypted until the restart that makes it a plain one.
                new.tls = old.tls.clone();
            }
        }
        self
    }
}
