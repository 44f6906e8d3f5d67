//! A drawing that is ready, with its title and its height: alone, in a page, or above others.

use super::chart::{STYLE, WIDTH, escaped};

#[derive(Clone, Debug, PartialEq)]
pub struct Plate {
    title: String,
    height: f64,
    body: String,
}

impl Plate {
    /// Frames what was drawn, and puts its title above it.
    pub(super) fn new(title: &str, height: f64, body: &str) -> Plate {
        let title = escaped(title);
        let body = format!("<text class=\"title\" x=\"8\" y=\"17\">{title}</text>{body}");
        Plate {
            title,
            height,
            body,
        }
    }

    /// Several, one above the other. Nothing if there is none.
    pub fn stacked(title: &str, plates: impl IntoIterator<Item = Plate>) -> Option<Plate> {
        let (mut height, mut body) = (0.0, String::new());
        for plate in plates {
            body.push_str(&format!(
                "<g transform=\"translate(0 {height:.0})\">{}</g>",
                plate.body
            ));
            height += plate.height + 10.0;
        }
        (height > 0.0).then(|| Plate {
            title: escaped(title),
            height,
            body,
        })
    }

    /// For a page that has the style.
    pub fn svg(&self) -> String {
        let Plate {
            title,
            height,
            body,
        } = self;
        format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\"><title>{title}</title>{body}</svg>"
        )
    }

    /// For a file of its own, which brings the style with it.
    pub fn file(&self) -> String {
        let Plate {
            title,
            height,
            body,
        } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\">\
             <title>{title}</title><style>{STYLE}svg.chart{{background:var(--ground)}}</style>{body}</svg>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plates_stand_above_each_other_and_a_file_has_its_style() {
        let one = |name: &str| Plate::new(name, 100.0, "<path d=\"M0 0\"/>");
        let both = Plate::stacked("both & more", [one("a"), one("b")]).expect("there are two");
        assert!(
            both.svg().contains("viewBox=\"0 0 480 220\"")
                && both.svg().contains("translate(0 110)")
        );
        assert!(
            both.svg().contains("<title>both &amp; more</title>") && !both.svg().contains("xmlns")
        );
        assert!(both.file().contains("xmlns") && both.file().contains("--ground"));
        assert!(Plate::stacked("none", []).is_none());
    }
}
