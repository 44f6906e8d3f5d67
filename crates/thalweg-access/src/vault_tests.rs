//! Tests of the vault and its pool.

use super::*;
use crate::{
    PeerState, Reply, TokenAlgorithm, TokenKeySettings, TokenKeySource, TokenSettings, VaultPool,
    Work, password_file,
};
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use thalweg_kernel::access::Permission;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: u64 = 1_900_000_000;

/// `mosquitto_passwd` 2.0.11 made the line: alice, `correct horse`.
const PASSWORDS: &str = "\
alice:$7$101$s8tBNlcCb1oR0ol7$4N9eqYgSXkQJWl/DKS/XHK6z3pZpP9ziluJgqOFk4FwNS+rwjXHtz036sa153GDV53M0joOIP5zt/WcSQW3+fQ==
";
const ACL: &str = "topic read public/#\nuser alice\ntopic alice/#\npattern readwrite own/%u/%c\n";

/// Files of one test's own.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("thalweg-vault-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("made");
        let files = Files(path);
        files.write("passwords", PASSWORDS);
        files.write("acl", ACL);
        files
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("written");
    }

    fn settings(&self) -> AccessSettings {
        let key = TokenKeySettings {
            id: None,
            algorithm: TokenAlgorithm::Hs256,
            source: TokenKeySource::Bytes(SECRET.into()),
        };
        AccessSettings {
            password_file: Some(self.0.join("passwords")),
            acl_file: Some(self.0.join("acl")),
            token: Some(TokenSettings {
                keys: vec![key],
                ..TokenSettings::default()
            }),
            ..AccessSettings::default()
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn request(user: Option<&str>, password: Option<&str>) -> LoginRequest {
    LoginRequest {
        client_id: "c1".into(),
        chose_client_id: true,
        user: user.map(Into::into),
        password: password.map(|password| password.as_bytes().into()),
        certificate_name: None,
        anonymous_allowed: true,
        peer: Some([127, 0, 0, 1].into()),
        listener: "mqtt".into(),
        protocol: "mqtt",
    }
}

fn check(vault: &Vault, request: &LoginRequest) -> Result<Option<String>, RefusalReason> {
    let moment = Moment {
        unix_seconds: NOW,
        instant: Instant::now(),
    };
    let verdict = vault.check_at(request, moment);
    verdict
        .map(|login| login.user.map(|user| user.to_string()))
        .map_err(|refusal| refusal.reason)
}

fn token(claims: serde_json::Value) -> String {
    crate::jwt::tests::sign_with(&json!({"alg": "HS256"}), &claims, SECRET)
}

use RefusalReason::*;

#[test]
fn each_offer_gets_the_answer_of_the_table() {
    let files = Files::new();
    let vault = Vault::load(&files.settings()).expect("loads");
    let good = token(json!({"sub": "dev7", "exp": NOW + 60}));
    let table = [
        (None, None, Ok(None)),
        (Some(""), None, Ok(None)),
        (Some(""), Some(""), Ok(None)),
        (Some("alice"), Some("correct horse"), Ok(Some("alice"))),
        (Some("alice"), Some("wrong"), Err(BadUserOrPassword)),
        (Some("alice"), Some(""), Err(BadUserOrPassword)),
        (Some("alice"), None, Err(BadUserOrPassword)),
        (
            Some("nobody"),
            Some("correct horse"),
            Err(BadUserOrPassword),
        ),
        (None, Some("correct horse"), Err(BadUserOrPassword)),
        (Some(""), Some("correct horse"), Err(BadUserOrPassword)),
        (None, Some(&*good), Ok(Some("dev7"))),
        (Some("dev7"), Some(&*good), Ok(Some("dev7"))),
        (Some(""), Some(&*good), Ok(Some("dev7"))),
        (Some("alice"), Some(&*good), Err(BadUserOrPassword)),
    ];
    for (user, password, expected) in table {
        let expected = expected.map(|user| user.map(String::from));
        assert_eq!(
            check(&vault, &request(user, password)),
            expected,
            "{user:?} {password:?}"
        );
    }
}

#[test]
fn where_the_anonymous_are_not_allowed_credentials_are_needed() {
    let files = Files::new();
    let vault = Vault::load(&files.settings()).expect("loads");
    let closed = |user, password| LoginRequest {
        anonymous_allowed: false,
        ..request(user, password)
    };
    assert_eq!(check(&vault, &closed(None, None)), Err(NotAuthorized));
    assert_eq!(
        check(&vault, &closed(Some("alice"), Some("correct horse"))),
        Ok(Some("alice".into()))
    );
}

#[test]
fn a_vault_that_knows_nobody_takes_names_for_nothing() {
    let vault = Vault::load(&AccessSettings::default()).expect("loads");
    assert_eq!(
        check(&vault, &request(Some("alice"), Some("x"))),
        Ok(None),
        "in, but not as alice"
    );
    let closed = LoginRequest {
        anonymous_allowed: false,
        ..request(Some("alice"), Some("x"))
    };
    assert_eq!(check(&vault, &closed), Err(NotAuthorized));
    let login = vault.check(&request(None, None)).expect("anonymous");
    assert!(login.rules.compile("c", None).is_allow_all());
}

#[test]
fn an_empty_password_file_lets_nobody_in_by_password() {
    let files = Files::new();
    files.write("passwords", "");
    let vault = Vault::load(&AccessSettings {
        token: None,
        ..files.settings()
    })
    .expect("loads");
    assert_eq!(
        check(&vault, &request(Some("alice"), Some("x"))),
        Err(BadUserOrPassword)
    );
    assert!(!vault.has_passwords());
}

#[test]
fn a_certificate_is_proof_enough() {
    let files = Files::new();
    let vault = Vault::load(&files.settings()).expect("loads");
    let with_certificate = |user, password| LoginRequest {
        certificate_name: Some("alice".into()),
        anonymous_allowed: false,
        ..request(user, password)
    };
    assert_eq!(
        check(&vault, &with_certificate(None, None)),
        Ok(Some("alice".into()))
    );
    assert_eq!(
        check(&vault, &with_certificate(Some("bob"), Some("wrong"))),
        Ok(Some("alice".into()))
    );
}

#[test]
fn rules_follow_the_proven_name() {
    let files = Files::new();
    let vault = Vault::load(&files.settings()).expect("loads");
    let allows = |request: &LoginRequest, permission, target: &str| {
        let moment = Moment {
            unix_seconds: NOW,
            instant: Instant::now(),
        };
        let login = vault.check_at(request, moment).expect("in");
        login
            .rules
            .compile(&request.client_id, login.user.as_deref())
            .allows(permission, target)
    };
    let (anonymous, alice) = (
        request(None, None),
        request(Some("alice"), Some("correct horse")),
    );
    assert!(allows(&anonymous, Permission::Receive, "public/x"));
    assert!(!allows(&anonymous, Permission::Publish, "alice/x"));
    assert!(allows(&alice, Permission::Publish, "alice/x"));
    assert!(allows(&alice, Permission::Publish, "own/alice/c1"));
    assert!(!allows(&alice, Permission::Publish, "own/alice/c2"));
    let from_file = token(json!({"sub": "dev7", "exp": NOW + 60}));
    assert!(allows(
        &request(None, Some(&from_file)),
        Permission::Publish,
        "own/dev7/c1"
    ));
    let own_rules =
        token(json!({"sub": "dev7", "exp": NOW + 60, "thalweg_acl": {"publish": ["x"]}}));
    assert!(allows(
        &request(None, Some(&own_rules)),
        Permission::Publish,
        "x"
    ));
    assert!(!allows(
        &request(None, Some(&own_rules)),
        Permission::Publish,
        "own/dev7/c1"
    ));
}

#[test]
fn a_token_tells_its_end_and_an_ended_one_says_so() {
    let files = Files::new();
    let vault = Vault::load(&files.settings()).expect("loads");
    let moment = Moment {
        unix_seconds: NOW,
        instant: Instant::now(),
    };
    let good = token(json!({"sub": "dev7", "exp": NOW + 60}));
    let login = vault
        .check_at(&request(None, Some(&good)), moment)
        .expect("good");
    assert_eq!(
        login.expires_at_unix,
        Some(NOW + 65),
        "leeway of 5 seconds included"
    );
    let ended = token(json!({"sub": "dev7", "exp": NOW - 60}));
    assert_eq!(check(&vault, &request(None, Some(&ended))), Err(Expired));
    let bad_rules = token(json!({"sub": "dev7", "exp": NOW + 60, "thalweg_acl": 1}));
    assert_eq!(
        check(&vault, &request(None, Some(&bad_rules))),
        Err(NotAuthorized)
    );
    // Without token keys a token is just a wrong password.
    let vault = Vault::load(&AccessSettings {
        token: None,
        ..files.settings()
    })
    .expect("loads");
    assert_eq!(
        check(&vault, &request(Some("dev7"), Some(&good))),
        Err(BadUserOrPassword)
    );
}

#[test]
fn a_reload_takes_effect_at_once_and_a_faulty_one_not_at_all() {
    let files = Files::new();
    let vault = Vault::load(&files.settings()).expect("loads");
    let alice = request(Some("alice"), Some("correct horse"));
    assert_eq!(check(&vault, &alice), Ok(Some("alice".into())));
    files.write("passwords", "alice:nonsense\nbob\n");
    files.write("acl", "topik a\n");
    assert_eq!(
        vault.reload(&files.settings()).expect_err("faulty").len(),
        3,
        "faults of all files at once"
    );
    assert_eq!(check(&vault, &alice), Ok(Some("alice".into())));
    files.write("passwords", "# nobody\n");
    files.write("acl", ACL);
    vault.reload(&files.settings()).expect("loads");
    assert_eq!(
        check(&vault, &alice),
        Err(BadUserOrPassword),
        "the remembered verdict is gone too"
    );
    assert!(
        vault
            .login_proven(&request(Some("alice"), None), &"alice".into())
            .is_err()
    );
}

#[test]
fn a_repeated_password_is_not_hashed_again() {
    let files = Files::new();
    password_file::add_password(&files.0.join("passwords"), "bob", b"slow").expect("added");
    let vault = Vault::load(&files.settings()).expect("loads");
    let bob = request(Some("bob"), Some("slow"));
    assert_eq!(check(&vault, &bob), Ok(Some("bob".into())));
    // 100,000 verifications would take more than ten minutes; a wrong implementation is seen without a clock.
    for _ in 0..100_000 {
        assert_eq!(check(&vault, &bob), Ok(Some("bob".into())));
    }
}

#[test]
fn scram_verifiers_come_from_the_file_and_fakes_stay_the_same_over_a_reload() {
    let files = Files::new();
    password_file::add_scram_verifier(&files.0.join("passwords"), "alice", b"pencil")
        .expect("added");
    let vault = Vault::load(&files.settings()).expect("loads");
    assert!(vault.scram_verifier("alice").verify(b"pencil"));
    let fake = vault.scram_verifier("nobody");
    assert!(!fake.verify(b"pencil"));
    vault.reload(&files.settings()).expect("loads");
    assert_eq!(fake, vault.scram_verifier("nobody"));
    assert_eq!(
        vault
            .login_proven(&request(Some("alice"), None), &"alice".into())
            .expect("in")
            .user
            .as_deref(),
        Some("alice")
    );
}

#[test]
fn refusals_tell_the_log_who_and_where_but_never_the_password() {
    let files = Files::new();
    let vault = Vault::load(&files.settings()).expect("loads");
    let refusal = vault
        .check(&request(Some("al\nice"), Some("hunter2")))
        .expect_err("refused");
    assert_eq!(
        refusal.log,
        "client \"c1\", user \"al\\nice\", from 127.0.0.1, on listener mqtt: wrong password or unknown user"
    );
    let refusal = vault
        .check(&request(Some(&"x".repeat(60_000)), Some("hunter2")))
        .expect_err("refused");
    assert!(refusal.log.len() < 300);
    assert!(!format!("{:?}", request(None, Some("hunter2"))).contains("hunter2"));
}

/// How long a thread may take for what it does at once.
const PATIENCE: Duration = Duration::from_secs(30);

fn spawn(name: String, work: Work) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(work)
}

/// Asks without a way to give up.
fn ask(pool: &VaultPool, request: LoginRequest, reply: Reply) -> Option<Result<Login, Refusal>> {
    pool.ask(request, Arc::default(), reply)
}

/// A pool whose only thread stands still in a reply until the sender goes.
fn held_up(files: &Files, queue_limit: usize) -> (VaultPool, mpsc::Sender<()>) {
    let vault = Arc::new(Vault::load(&files.settings()).expect("loads"));
    let pool = VaultPool::new(vault, 1, queue_limit, spawn).expect("starts");
    let (hold, held) = mpsc::channel::<()>();
    let (busy, is_busy) = mpsc::channel();
    let block = Box::new(move |_: Result<Login, Refusal>| {
        let _ = busy.send(());
        let _ = held.recv_timeout(PATIENCE);
    });
    assert!(
        ask(&pool, request(Some("alice"), Some("correct horse")), block).is_none(),
        "nothing is known yet"
    );
    is_busy.recv_timeout(PATIENCE).expect("the thread works");
    (pool, hold)
}

fn from(network: u8, user: &str) -> LoginRequest {
    LoginRequest {
        peer: Some([10, 0, 0, network].into()),
        ..request(Some(user), Some("wrong"))
    }
}

#[test]
fn the_pool_answers_every_accepted_request_once() {
    let files = Files::new();
    let pool = VaultPool::new(
        Arc::new(Vault::load(&files.settings()).expect("loads")),
        2,
        64,
        spawn,
    )
    .expect("starts");
    let (sender, receiver) = mpsc::channel();
    for number in 0..50 {
        let is_right = number % 2 == 0;
        let (sender, now) = (sender.clone(), sender.clone());
        let reply = Box::new(move |verdict: Result<Login, Refusal>| {
            let _ = sender.send((is_right, verdict.is_ok()));
        });
        let password = if is_right { "correct horse" } else { "wrong" };
        // From networks of their own: nobody waits for what others fail at.
        let asked = LoginRequest {
            peer: Some([10, 0, 0, number].into()),
            ..request(Some("alice"), Some(password))
        };
        if let Some(verdict) = ask(&pool, asked, reply) {
            let _ = now.send((is_right, verdict.is_ok()));
        }
    }
    drop(sender);
    let answers: Vec<_> = receiver.iter().collect();
    assert_eq!(answers.len(), 50);
    assert!(answers.iter().all(|(right, verdict)| right == verdict));
    pool.shutdown();
}

#[test]
fn what_is_known_is_answered_before_the_queue() {
    let files = Files::new();
    let (pool, _hold) = held_up(&files, 2);
    let known = |user, password| {
        let unused = Box::new(|_: Result<Login, Refusal>| panic!("it was answered at once"));
        ask(&pool, request(user, password), unused).map(|verdict| verdict.map(|login| login.user))
    };
    let alice: Option<Arc<str>> = Some("alice".into());
    assert_eq!(
        known(Some("alice"), Some("correct horse")),
        Some(Ok(alice)),
        "verified a moment ago"
    );
    assert_eq!(
        known(None, None),
        Some(Ok(None)),
        "the anonymous show nothing that could be verified"
    );
    let refused = known(Some("alice"), None).and_then(Result::err);
    assert_eq!(
        refused.map(|refusal| refusal.reason),
        Some(BadUserOrPassword)
    );
    assert_eq!(pool.counts().waiting, 0);
}

#[test]
fn a_flood_from_one_network_delays_others_by_one_request() {
    let files = Files::new();
    let (pool, hold) = held_up(&files, 1_000);
    let (sender, receiver) = mpsc::channel();
    let submit = |request: LoginRequest, number: u32| {
        let sender = sender.clone();
        let reply = Box::new(move |_: Result<Login, Refusal>| _ = sender.send(number));
        assert!(ask(&pool, request, reply).is_none());
    };
    (0..40).for_each(|number| submit(from(1, &format!("user{number}")), number));
    (100..140).for_each(|number| submit(from(1, "bob"), number));
    submit(from(2, "bob"), 1_000);
    drop(hold);
    drop(sender);
    let order: Vec<u32> = receiver.iter().take(2).collect();
    assert_eq!(order, [0, 1_000]);
}

#[test]
fn what_nobody_waits_for_any_more_is_not_worked_off() {
    let files = Files::new();
    let (pool, hold) = held_up(&files, 1_000);
    let (sender, receiver) = mpsc::channel();
    for number in 0..100 {
        let (sender, peer) = (sender.clone(), Arc::<PeerState>::default());
        let reply = Box::new(move |_: Result<Login, Refusal>| _ = sender.send(number));
        assert!(
            pool.ask(from(1, &format!("user{number}")), peer.clone(), reply)
                .is_none()
        );
        if number != 70 {
            peer.set_gone();
        }
    }
    drop(hold);
    drop(sender);
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [70]);
    let counts = pool.counts();
    assert_eq!(
        (counts.waiting, counts.by_reason[0]),
        (0, ("bad_credentials", 1))
    );
    assert_eq!(
        counts.by_protocol.into_iter().collect::<Vec<_>>(),
        [("mqtt", 1)]
    );
}

#[test]
fn a_right_password_waits_for_no_log_in_of_its_network_whose_peer_has_closed_its_side() {
    let files = Files::new();
    password_file::add_password(&files.0.join("passwords"), "carol", b"right").expect("added");
    let (pool, hold) = held_up(&files, 1_000);
    let (sender, receiver) = mpsc::channel();
    let submit = |request: LoginRequest| {
        let (sender, peer) = (sender.clone(), Arc::<PeerState>::default());
        let user = request.user.clone();
        let reply = Box::new(move |verdict: Result<Login, Refusal>| {
            let _ = sender.send((user, verdict.is_ok()));
        });
        assert!(pool.ask(request, peer.clone(), reply).is_none());
        peer
    };
    for number in 0..20 {
        submit(from(1, &format!("random{number}"))).set_half_closed();
    }
    submit(LoginRequest {
        password: Some((*b"right").into()),
        ..from(1, "carol")
    });
    (20..32).for_each(|number| submit(from(1, &format!("random{number}"))).set_half_closed());
    drop(hold);
    drop(sender);
    let order: Vec<_> = receiver.iter().collect();
    assert_eq!(order[0], (Some("carol".into()), true));
    assert_eq!(order.len(), 33, "who has closed its side may listen");
}

#[test]
fn a_full_pool_says_so_to_who_asks_most_and_a_closing_one_answers_what_waits() {
    let files = Files::new();
    let (pool, hold) = held_up(&files, 2);
    let (sender, receiver) = mpsc::channel();
    let submit = |request: LoginRequest, number: u32| {
        let sender = sender.clone();
        let reply = move |verdict: Result<Login, Refusal>| {
            let _ = sender.send((number, verdict.err().map(|refusal| refusal.reason)));
        };
        assert!(ask(&pool, request, Box::new(reply)).is_none());
    };
    submit(from(1, "a"), 1);
    submit(from(1, "b"), 2);
    submit(from(2, "c"), 3);
    let lost = receiver.recv_timeout(PATIENCE).expect("somebody lost");
    assert!(matches!(lost, (1 | 2, Some(Unavailable))), "{lost:?}");
    assert_eq!(pool.counts().waiting, 2);
    let closer = std::thread::spawn(move || pool.shutdown());
    for _ in 0..2 {
        assert_eq!(
            receiver.recv_timeout(PATIENCE).map(|(_, reason)| reason),
            Ok(Some(Unavailable))
        );
    }
    drop(hold);
    closer.join().expect("all threads end");
}

#[test]
fn a_thread_that_panics_ends_as_its_spawner_can_see() {
    let files = Files::new();
    let (ended, ends) = mpsc::channel();
    let spawn = move |name: String, work: Work| {
        let ended = ended.clone();
        let watched = move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            let _ = ended.send((name, outcome.is_err()));
        };
        Ok(std::thread::spawn(watched))
    };
    let vault = Arc::new(Vault::load(&files.settings()).expect("loads"));
    let pool = VaultPool::new(vault, 1, 8, spawn).expect("starts");
    // `resume_unwind` unwinds like a panic, without its message in the test output.
    let unwinding = Box::new(|_: Result<Login, Refusal>| {
        std::panic::resume_unwind(Box::new("a bug elsewhere"))
    });
    assert!(ask(&pool, request(Some("alice"), Some("wrong")), unwinding).is_none());
    assert_eq!(
        ends.recv_timeout(PATIENCE),
        Ok(("vault-0".to_owned(), true))
    );
}
