//! From a URL to the lanes that speak its protocol.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::transport::Transport;
use crate::url::BrokerUrl;

/// Makes the lanes to a broker, most often one.
pub(crate) type Lanes = fn(&BrokerUrl, &PluginSettings) -> Vec<Box<dyn Transport>>;

/// The user's settings of each plugin, by their type.
#[derive(Clone, Debug, Default)]
pub(crate) struct PluginSettings {
    own: BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>,
    /// The user has said whom to trust over TLS, so that a connection without it is not meant.
    pub(crate) has_tls_files: bool,
}

impl PluginSettings {
    /// Returns the settings of this type, the default ones if none were set.
    pub(crate) fn get<T: Any + Clone + Default>(&self) -> T {
        let own = self.own.get(&TypeId::of::<T>());
        own.and_then(|own| own.downcast_ref())
            .cloned()
            .unwrap_or_default()
    }

    pub(crate) fn set<T: Any + Send + Sync>(&mut self, settings: T) {
        self.own.insert(TypeId::of::<T>(), Arc::new(settings));
    }
}
