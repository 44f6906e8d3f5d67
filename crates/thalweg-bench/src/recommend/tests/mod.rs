mod answers;
mod golden;

use clap::Parser;

use super::{Advice, RecommendArgs, Source, advise, render};

/// A line of flags, as it is typed.
#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    args: RecommendArgs,
}

/// A query from its flags.
fn query(flags: &str) -> RecommendArgs {
    let words = std::iter::once("recommend").chain(flags.split_whitespace());
    CommandLine::try_parse_from(words)
        .unwrap_or_else(|error| panic!("{flags}: {error}"))
        .args
}

/// The answer, and its text.
fn ask(flags: &str, sources: &[Source]) -> (Advice, String) {
    let query = query(flags);
    let advice = advise(&query, sources);
    let text = render::text(&advice, &query, 1_795_339_420);
    println!("$ thalweg bench recommend {flags}\n{text}\n");
    (advice, text)
}

fn paper() -> Source {
    Source::paper().expect("it is in the program")
}

fn expected() -> Source {
    Source::expected().expect("it is in the program")
}
