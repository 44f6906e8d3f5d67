//! `GET /`: what there is.

use axum::response::Html;

pub(crate) async fn show() -> Html<&'static str> {
    Html(include_str!("front_page.html"))
}
