//! A document: headings, text, tables and figures, and the two forms that it is written in.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A piece of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// The heading of a section.
    Heading(String),
    Text(String),
    Table(Table),
    /// A drawing that takes its colours from the page; as many stand beside each other as there is room for.
    Chart {
        svg: String,
        caption: String,
        /// The command that measures it again; empty where the page has one for all.
        command: String,
    },
    /// A table that is folded until the reader opens it.
    Folded {
        words: String,
        table: Table,
        /// It is short enough for a terminal.
        is_brief: bool,
    },
    /// The figures that a page begins with.
    Tiles(Vec<Tile>),
    /// Links to the sections of the page.
    Contents,
    /// Links to what is beside the page: words and places.
    Links(Vec<(String, String)>),
    /// The heading of a part of a section.
    Part(String),
    /// Lines as they are typed.
    Code(String),
}

/// A figure that a page begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    /// The number with its unit; none if it was not measured.
    pub number: Option<String>,
    /// What it is, in a few words.
    pub words: String,
    /// The heading of the section that it is from.
    pub section: String,
}

impl Tile {
    fn number(&self) -> &str {
        self.number.as_deref().unwrap_or("not measured")
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub head: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<String>>,
    /// On a narrow screen each row is a card, because its cells have sentences.
    pub cards: bool,
}

/// The name of a column, and what stands in it.
pub type Column<T> = (&'static str, fn(&T) -> String);

impl Table {
    /// A table with these columns.
    pub fn new(head: &[&str]) -> Table {
        Table {
            head: head.iter().map(|name| (*name).to_owned()).collect(),
            ..Table::default()
        }
    }

    /// A table with a row for each of these things.
    pub fn of<'t, T: 't>(things: impl IntoIterator<Item = &'t T>, columns: &[Column<T>]) -> Table {
        let row = |thing| columns.iter().map(|column| column.1(thing)).collect();
        Table {
            head: columns.iter().map(|column| column.0.to_owned()).collect(),
            rows: things.into_iter().map(row).collect(),
            cards: false,
        }
    }

    /// The same, whose cells have sentences.
    pub fn of_sentences(mut self) -> Table {
        self.cards = true;
        self
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// What it is called.
    pub title: String,
    pub blocks: Vec<Block>,
}

impl Document {
    pub fn heading(&mut self, words: impl Into<String>) {
        self.blocks.push(Block::Heading(words.into()));
    }

    pub fn text(&mut self, words: impl Into<String>) {
        self.blocks.push(Block::Text(words.into()));
    }

    /// Adds a table, unless it is empty.
    pub fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }

    /// Adds a drawing that takes its colours from the page.
    pub fn chart(&mut self, svg: String, caption: impl Into<String>, command: impl Into<String>) {
        self.blocks.push(Block::Chart {
            svg,
            caption: caption.into(),
            command: command.into(),
        });
    }

    /// Adds a table that is folded until the reader opens it, unless it is empty.
    pub fn folded(&mut self, words: impl Into<String>, table: Table) {
        self.fold(words.into(), table, false);
    }

    /// The same, but a terminal shows it at once.
    pub fn folded_on_pages(&mut self, words: impl Into<String>, table: Table) {
        self.fold(words.into(), table, true);
    }

    fn fold(&mut self, words: String, table: Table, is_brief: bool) {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Folded {
                words,
                table,
                is_brief,
            });
        }
    }

    /// Adds the figures that a page begins with.
    pub fn tiles(&mut self, tiles: Vec<Tile>) {
        self.blocks.push(Block::Tiles(tiles));
    }

    /// Adds links to the sections of the page.
    pub fn contents(&mut self) {
        self.blocks.push(Block::Contents);
    }

    /// Adds links to what is beside the page: words and places.
    pub fn links<'a>(&mut self, links: impl IntoIterator<Item = (&'a str, String)>) {
        let links = links.into_iter();
        let links = links.map(|(words, place)| (words.to_owned(), place));
        self.blocks.push(Block::Links(links.collect()));
    }

    /// Adds the heading of a part of a section.
    pub fn part(&mut self, words: impl Into<String>) {
        self.blocks.push(Block::Part(words.into()));
    }

    /// Adds lines as they are typed.
    pub fn code(&mut self, lines: impl Into<String>) {
        self.blocks.push(Block::Code(lines.into()));
    }

    /// As Markdown for a terminal, without drawings and folded tables.
    pub fn brief(&self) -> String {
        self.written(true)
    }

    /// As Markdown, without drawings.
    pub fn markdown(&self) -> String {
        self.written(false)
    }

    fn written(&self, for_terminal: bool) -> String {
        let mut text = format!("# {}\n", self.title);
        for block in &self.blocks {
            match block {
                Block::Contents | Block::Chart { .. } => {}
                Block::Code(_) | Block::Links(_) if for_terminal => {}
                Block::Folded { is_brief, .. } if for_terminal && !is_brief => {}
                Block::Heading(words) => drop(writeln!(text, "\n## {words}")),
                Block::Text(words) => drop(writeln!(text, "\n{words}")),
                Block::Part(words) => drop(writeln!(text, "\n### {words}")),
                Block::Code(lines) => drop(writeln!(text, "\n```sh\n{lines}\n```")),
                Block::Table(table) => text += &format!("\n{}", table.markdown()),
                Block::Folded { words, table, .. } => {
                    let _ = write!(text, "\n{words}:\n\n{}", table.markdown());
                }
                Block::Tiles(tiles) => {
                    text.push('\n');
                    for tile in tiles {
                        let _ = writeln!(text, "- **{}** {}", tile.number(), tile.words);
                    }
                }
                Block::Links(links) => {
                    let links: Vec<String> = links
                        .iter()
                        .map(|(words, place)| format!("[{words}]({place})"))
                        .collect();
                    let _ = writeln!(text, "\n{}", links.join(" · "));
                }
            }
        }
        text
    }

    /// As one file of HTML that needs nothing else, not even a script.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let mut text = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        let mut in_charts = false;
        let mut seen = Names::default();
        for block in &self.blocks {
            let is_chart = matches!(block, Block::Chart { .. });
            if is_chart != in_charts {
                text += ["</div>\n", "<div class=\"charts\">\n"][usize::from(is_chart)];
                in_charts = is_chart;
            }
            match block {
                Block::Heading(words) => {
                    let (id, words) = (seen.of(words), escaped(words));
                    let _ = writeln!(text, "<h2 id=\"{id}\">{words}</h2>");
                }
                Block::Tiles(tiles) => {
                    text.push_str("<div class=\"tiles\">\n");
                    for tile in tiles {
                        let grey = tile.number.as_ref().map_or(" class=\"grey\"", |_| "");
                        let (number, words) = (escaped(tile.number()), escaped(&tile.words));
                        let section = slug(&tile.section);
                        let link = format!("<a{grey} href=\"#{section}\">");
                        let _ = writeln!(text, "{link}<b>{number}</b> {words}</a>");
                    }
                    text.push_str("</div>\n");
                }
                Block::Contents => self.write_contents(&mut text),
                Block::Links(links) => {
                    let one = |(words, place): &(String, String)| {
                        format!("<a href=\"{}\">{}</a>", escaped(place), escaped(words))
                    };
                    let all: Vec<String> = links.iter().map(one).collect();
                    let _ = writeln!(text, "<p>{}</p>", all.join(" · "));
                }
                Block::Part(words) => drop(writeln!(text, "<h3>{}</h3>", escaped(words))),
                Block::Text(words) => drop(writeln!(text, "<p>{}</p>", escaped(words))),
                Block::Code(lines) => drop(writeln!(text, "<pre>{}</pre>", escaped(lines))),
                Block::Table(table) => table.write_html(&mut text),
                Block::Folded { words, table, .. } => {
                    let _ = writeln!(text, "<details><summary>{}</summary>", escaped(words));
                    table.write_html(&mut text);
                    text.push_str("</details>\n");
                }
                Block::Chart {
                    svg,
                    caption,
                    command,
                } => {
                    let again = match command.as_str() {
                        "" => String::new(),
                        command => format!("<br><code>{}</code>", unbroken(command)),
                    };
                    let caption = escaped(caption);
                    let _ = writeln!(
                        text,
                        "<figure>{svg}<figcaption>{caption}{again}</figcaption></figure>"
                    );
                }
            }
        }
        if in_charts {
            text.push_str("</div>\n");
        }
        text.push_str("</body>\n</html>\n");
        text
    }

    fn write_contents(&self, text: &mut String) {
        text.push_str("<nav><ul>\n");
        let mut seen = Names::default();
        for block in &self.blocks {
            if let Block::Heading(words) = block {
                let (id, words) = (seen.of(words), escaped(words));
                let _ = writeln!(text, "<li><a href=\"#{id}\">{words}</a></li>");
            }
        }
        text.push_str("</ul></nav>\n");
    }
}

/// Names of sections in links: each once.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, usize>);

impl Names {
    fn of(&mut self, words: &str) -> String {
        let base = slug(words);
        let count = self.0.entry(base.clone()).or_default();
        *count += 1;
        match count {
            1 => base,
            _ => format!("{base}-{count}"),
        }
    }
}

/// Words as a part of a link.
fn slug(words: &str) -> String {
    let words = words.to_lowercase();
    let parts: Vec<&str> = words
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty())
        .collect();
    parts.join("-")
}

impl Table {
    /// With the pipes of its cells escaped.
    pub fn markdown(&self) -> String {
        let lines = "---|".repeat(self.head.len());
        let mut text = format!("| {} |\n|{lines}\n", self.head.join(" | "));
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text
    }

    fn write_html(&self, text: &mut String) {
        let cards = if self.cards { " class=\"cards\"" } else { "" };
        let _ = write!(text, "<div class=\"wide\"><table{cards}>\n<tr>");
        for name in &self.head {
            let _ = write!(text, "<th>{}</th>", escaped(name));
        }
        text.push_str("</tr>\n");
        for row in &self.rows {
            text.push_str("<tr>");
            for (at, cell) in row.iter().enumerate() {
                let class = class_of(cell);
                let name = self.head.get(at).filter(|_| self.cards);
                let name = name.map_or(String::new(), |it| {
                    format!(" data-name=\"{}\"", escaped(it))
                });
                let _ = write!(text, "<td{class}{name}>{}</td>", escaped(cell));
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</table></div>\n");
    }
}

/// Longer cells are cut into lines.
const UNCUT_MAX: usize = 44;

/// Words that are never cut: `--` at the end of a line is no flag.
fn unbroken(command: &str) -> String {
    let words: Vec<String> = command
        .split(' ')
        .map(|word| format!("<span>{}</span>", escaped(word)))
        .collect();
    words.join(" ")
}

/// Verdicts are told apart at a glance, and by their words: how a cell begins, and its class.
const CLASSES: [(&str, &str); 9] = [
    ("not reproduced", "no"),
    ("above", "no"),
    ("invalid", "no"),
    ("reproduced under", "so"),
    ("not measured", "grey"),
    ("not judged", "grey"),
    ("reproduced", "yes"),
    ("held", "yes"),
    ("-", "none"),
];

fn class_of(cell: &str) -> String {
    let is_it = |begin: &str| match begin {
        "held" | "-" => cell == begin,
        _ => cell.starts_with(begin),
    };
    let class = match CLASSES.iter().find(|(begin, _)| is_it(begin)) {
        Some((_, class)) => class,
        None if cell.is_empty() => "none",
        None if cell.chars().count() > UNCUT_MAX => "long",
        None => return String::new(),
    };
    format!(" class=\"{class}\"")
}

/// Words in HTML or XML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Of pages and of drawings in them, light and dark.
pub const STYLE: &str = include_str!("page.css");

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Document {
        let mut document = Document {
            title: "A <b>".to_owned(),
            ..Document::default()
        };
        document.heading("Numbers");
        let mut table = Table::new(&["name", "value"]);
        table.row(["a|b".to_owned(), "reproduced".to_owned()]);
        document.table(table);
        document.table(Table::new(&["nothing"]));
        document.chart("<svg></svg>".to_owned(), "what & why", "");
        document
    }

    #[test]
    fn markdown_keeps_its_columns() {
        assert_eq!(
            sample().markdown(),
            "# A <b>\n\n## Numbers\n\n| name | value |\n|---|---|\n| a\\|b | reproduced |\n"
        );
    }

    #[test]
    fn html_stands_alone_and_trusts_no_words() {
        let html = sample().html();
        for part in [
            "<title>A &lt;b&gt;</title>",
            "<td class=\"yes\">reproduced</td>",
            "<svg></svg>",
            "what &amp; why",
        ] {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("<script") && !html.contains("http"));
    }

    #[test]
    fn a_page_has_contents_and_what_was_not_measured_is_grey() {
        let mut document = Document {
            title: "T".to_owned(),
            ..Document::default()
        };
        let tile = |number: Option<&str>| Tile {
            number: number.map(str::to_owned),
            words: "it".to_owned(),
            section: "E1: drawings".to_owned(),
        };
        document.tiles(vec![tile(Some("5 ms")), tile(None)]);
        document.contents();
        document.links([("raw files", "E1/".to_owned())]);
        for _ in 0..2 {
            document.heading("E1: drawings");
        }
        let mut table = Table::new(&["verdict"]);
        for verdict in [
            "not judged: noise",
            "not measured",
            "reproduced",
            "reproduced under a condition: x",
        ] {
            table.row([verdict.to_owned()]);
        }
        document.folded_on_pages("E1: 1 reproduced", table);
        let html = document.html();
        for part in [
            "<a href=\"#e1-drawings\"><b>5 ms</b> it</a>",
            "<a class=\"grey\" href=\"#e1-drawings\"><b>not measured</b> it</a>",
            "<li><a href=\"#e1-drawings-2\">E1: drawings</a></li>",
            "<h2 id=\"e1-drawings-2\">",
            "<a href=\"E1/\">raw files</a>",
            "<summary>E1: 1 reproduced</summary>",
            "<td class=\"grey\">not judged: noise</td>",
            "<td class=\"grey\">not measured</td>",
            "<td class=\"so\">reproduced under",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        let brief = document.brief();
        assert!(
            brief.contains("- **not measured** it") && brief.contains("| not judged: noise |"),
            "{brief}"
        );
    }

    #[test]
    fn a_flag_is_never_cut_and_a_long_cell_is() {
        let mut document = Document::default();
        document.chart("<svg></svg>".to_owned(), "what", "thalweg bench --like E1");
        let mut table = Table::new(&["a", "b", "c"]);
        table.row([
            "x".repeat(UNCUT_MAX + 1),
            "12 ± 3".to_owned(),
            "-".to_owned(),
        ]);
        document.table(table);
        let html = document.html();
        assert!(
            html.contains("<span>--like</span> <span>E1</span>"),
            "{html}"
        );
        assert!(
            html.contains("<td class=\"long\">xxx")
                && html.contains("<td>12 ± 3</td><td class=\"none\">-</td>")
        );
    }
}
