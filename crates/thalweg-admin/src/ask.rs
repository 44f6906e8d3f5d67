//! Queries of requests to the shards.

use crate::answer::Fault;
use thalweg_server::{Inside, Observer};

/// Asks shards without ever making the `admin` thread wait.
#[derive(Clone)]
pub(crate) struct Asker {
    observer: Observer,
}

/// Answers of the shards.
pub(crate) struct ShardAnswers<T> {
    /// One answer per shard that answered, in the order of shards.
    pub(crate) answers: Vec<T>,
    /// Shards that did not answer in time; their part is missing.
    pub(crate) silent: usize,
}

impl Asker {
    pub(crate) fn new(observer: Observer) -> Self {
        Asker { observer }
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.observer
    }

    /// Runs `f` inside each shard. It must be quick, and it must not panic: it runs where messages do.
    pub(crate) async fn all<T: Send + 'static>(
        &self,
        f: impl Fn(&mut Inside<'_>) -> T + Send + Sync + 'static,
    ) -> Result<ShardAnswers<T>, Fault> {
        let observer = self.observer.clone();
        let waiting = tokio::task::spawn_blocking(move || observer.on_shards(f));
        let answers = waiting.await.map_err(|_| Fault::stopping())?;
        let silent = self.observer.shard_count().saturating_sub(answers.len());
        Ok(ShardAnswers { answers, silent })
    }
}
