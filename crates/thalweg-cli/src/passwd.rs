//! `thalweg passwd`: sets or deletes a user's password in a password file.

use std::io::{BufRead, BufReader, Read};

use thalweg_server::access::{add_password, add_scram_verifier, delete_user, user_name_problem};

use crate::cli::PasswdArgs;
use crate::failure::{EXIT_USAGE, Failure};

/// Runs the command; `input` is standard input.
pub fn run(args: &PasswdArgs, input: impl Read) -> Result<(), Failure> {
    let PasswdArgs { file, user, .. } = args;
    if let Some(problem) = user_name_problem(user) {
        return Err(Failure::new(problem)
            .code(EXIT_USAGE)
            .mend("Choose another user name"));
    }
    let in_words = |error: thalweg_server::access::AccessError| Failure::new(error.to_string());
    if args.delete {
        return match delete_user(file, user).map_err(in_words)? {
            true => told(format!("{user} is deleted")),
            false => Err(Failure::new(format!(
                "{} has no user {user}",
                file.display()
            ))),
        };
    }
    let password = match args.stdin {
        true => first_line(input)?,
        false => asked_twice(user)?,
    };
    if password.is_empty() {
        return Err(Failure::new("the password is empty")
            .mend("To let people in without one, see listeners.<name>.anonymous"));
    }
    let set = if args.scram {
        add_scram_verifier
    } else {
        add_password
    };
    match set(file, user, &password).map_err(in_words)? {
        true => told(format!("{user} has a new password")),
        false => told(format!("{user} is added")),
    }
}

fn told(words: String) -> Result<(), Failure> {
    eprintln!("{words}; a running broker reads the file again at SIGHUP");
    Ok(())
}

fn first_line(input: impl Read) -> Result<Vec<u8>, Failure> {
    let mut line = Vec::new();
    BufReader::new(input)
        .take(PASSWORD_BYTES_LIMIT)
        .read_until(b'\n', &mut line)
        .map_err(|error| Failure::new(format!("standard input cannot be read: {error}")))?;
    let end = line
        .iter()
        .rposition(|byte| !matches!(byte, b'\n' | b'\r'))
        .map_or(0, |last| last + 1);
    line.truncate(end);
    Ok(line)
}

fn asked_twice(user: &str) -> Result<Vec<u8>, Failure> {
    let ask = |prompt: String| {
        rpassword::prompt_password(prompt).map_err(|error| {
            Failure::new(format!("the password cannot be asked for: {error}"))
                .mend("Without a terminal, use --stdin")
        })
    };
    let password = ask(format!("Password of {user}: "))?;
    match ask("The same again: ".to_owned())? == password {
        true => Ok(password.into_bytes()),
        false => Err(Failure::new("the two passwords differ").mend("Try again")),
    }
}

/// MQTT's own limit of a password, and the line feed.
const PASSWORD_BYTES_LIMIT: u64 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_server::access::PasswordFile;

    #[test]
    fn a_password_is_set_changed_and_deleted() {
        let file = std::env::temp_dir().join(format!("thalweg-passwd-{}", std::process::id()));
        let args = |delete| PasswdArgs {
            file: file.clone(),
            user: "alice".into(),
            delete,
            scram: false,
            stdin: true,
        };
        let verify = |password: &str| {
            PasswordFile::read(&file).expect("we wrote it").verify(
                &[0; 32],
                "alice",
                password.as_bytes(),
            )
        };
        run(&args(false), &b"first\r\nrest"[..]).expect("the folder is writable");
        assert!(verify("first"));
        run(&args(false), &b"second"[..]).expect("the folder is writable");
        assert!(verify("second") && !verify("first"));
        run(&args(true), &b""[..]).expect("alice is there");
        assert!(run(&args(true), &b""[..]).is_err(), "alice is gone");
        assert!(
            run(&args(false), &b"\n"[..]).is_err(),
            "an empty password is none"
        );
        let _ = std::fs::remove_file(&file);
    }
}
