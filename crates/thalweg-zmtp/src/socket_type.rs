//! The types of sockets that announce themselves.

macro_rules! socket_types {
    ($($name:ident $text:literal $doc:literal;)*) => {
        /// Type of a socket. [37#The_Socket-Type_Property]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum SocketType {
            $(#[doc = $doc] $name,)*
        }

        impl SocketType {
            /// All socket types, those of draft patterns too.
            pub const ALL: &'static [SocketType] = &[$(SocketType::$name),*];

            /// The name in the metadata.
            pub const fn name(self) -> &'static str {
                match self {
                    $(SocketType::$name => $text,)*
                }
            }
        }
    };
}

socket_types! {
    Req "REQ" "Asks, and waits for the answer.";
    Rep "REP" "Answers one request after the other.";
    Dealer "DEALER" "Asks without waiting.";
    Router "ROUTER" "Answers whoever it addresses.";
    Pub "PUB" "Publishes.";
    Xpub "XPUB" "Publishes, and sees subscriptions.";
    Sub "SUB" "Subscribes.";
    Xsub "XSUB" "Subscribes by messages.";
    Push "PUSH" "Sends each message to one worker.";
    Pull "PULL" "Is a worker.";
    Pair "PAIR" "Talks to one other.";
    Client "CLIENT" "Asks, thread-safe.";
    Server "SERVER" "Answers, thread-safe.";
    Radio "RADIO" "Publishes to groups.";
    Dish "DISH" "Joins groups.";
    Scatter "SCATTER" "As PUSH, thread-safe.";
    Gather "GATHER" "As PULL, thread-safe.";
    Peer "PEER" "Talks to many of its kind.";
    Channel "CHANNEL" "As PAIR, thread-safe.";
}

impl SocketType {
    /// The type of this name.
    pub fn from_name(name: &[u8]) -> Option<SocketType> {
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.name().as_bytes() == name)
    }

    /// Whether the table of legal combinations has this pair.
    pub fn goes_with(self, other: SocketType) -> bool {
        use SocketType::*;
        let others: &[SocketType] = match self {
            Req => &[Rep, Router],
            Rep => &[Req, Dealer],
            Dealer => &[Rep, Dealer, Router],
            Router => &[Req, Dealer, Router],
            Pub | Xpub => &[Sub, Xsub],
            Sub | Xsub => &[Pub, Xpub],
            Push => &[Pull],
            Pull => &[Push],
            Pair => &[Pair],
            Client => &[Server],
            Server => &[Client],
            Radio => &[Dish],
            Dish => &[Radio],
            Scatter => &[Gather],
            Gather => &[Scatter],
            Peer => &[Peer],
            Channel => &[Channel],
        };
        others.contains(&other)
    }

    /// Whether it sends subscriptions.
    #[inline]
    pub fn subscribes(self) -> bool {
        matches!(self, SocketType::Sub | SocketType::Xsub)
    }

    /// Whether libzmq sends its identity, even an empty one.
    pub(crate) fn has_identity(self) -> bool {
        matches!(
            self,
            SocketType::Req | SocketType::Dealer | SocketType::Router
        )
    }
}
