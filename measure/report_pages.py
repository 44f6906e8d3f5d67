#!/usr/bin/env python3
"""Opens pages of results in headless Chromium as a phone (400 px) and as a screen (1400 px) have them, light and dark.

    measure/report_pages.py docs/results/report.html            # checks; exit code 1 if something is wrong
    measure/report_pages.py docs/results/report.html --shots /tmp/shots     # and a picture of each drawing and table

Wrong is: an error or a warning on the console, a request of anything but the file itself, a page that has to be
scrolled sideways, a letter of a drawing below 9 px, words of a drawing that lie on each other or leave it, and words that
can hardly be told from their ground (contrast below 4.5). Needs `chromium` (Debian's will do) and nothing of Python that
does not come with it: it speaks the DevTools protocol over the two pipes of `--remote-debugging-pipe`. The phone is an
emulated one, since a window of headless Chromium cannot be narrower than 500 px.
"""

import argparse
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

WIDTHS = {400: True, 1400: False}
SCHEMES = ["light", "dark"]
LETTER_PX_LEAST = 9.0
CONTRAST_LEAST = 4.5
ANSWER_S = 120


class Browser:
    """Chromium, and the DevTools protocol over its pipes."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="report-pages-")
        to_browser, self.write_to = os.pipe()
        self.read_from, from_browser = os.pipe()

        def pipes():
            # The browser reads from 3 and writes to 4. Both are moved away first, lest one overwrite the other.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
                 "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                 f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen([program, *flags], preexec_fn=pipes, close_fds=False, start_new_session=True,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number = 0
        self.rest = b""
        self.events = []

    def close(self):
        try:
            self.ask("Browser.close")
            self.process.wait(20)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def ask(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.write_to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def next(self):
        end = time.monotonic() + ANSWER_S
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read_from], [], [], left)[0]:
                raise RuntimeError("Chromium does not answer")
            some = os.read(self.read_from, 1 << 20)
            if not some:
                raise RuntimeError("Chromium has ended")
            self.rest += some
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def wait_for(self, session, method):
        while True:
            for at, event in enumerate(self.events):
                if event.get("method") == method and event.get("sessionId") == session:
                    return self.events[: at + 1]
            self.events.append(self.next())


# What is seen is measured in the page: it knows how its letters came out.
LOOK = r"""
(() => {
  for (const folded of document.querySelectorAll('details')) folded.open = true;
  const wrong = [], view = document.documentElement.clientWidth;
  const name = svg => (svg.querySelector('title, text') || {textContent: 'a drawing'}).textContent.trim();
  if (document.documentElement.scrollWidth > view)
    wrong.push(`the page is ${document.documentElement.scrollWidth} px wide on a screen of ${view}`);
  for (const it of document.querySelectorAll('h1,h2,h3,p,pre,table,figure,figcaption,.wide,svg,summary')) {
    const box = it.getBoundingClientRect();
    if (!it.closest('.wide, pre') && (box.left < 0 || box.right > view + 0.5))
      wrong.push(`<${it.tagName.toLowerCase()}> reaches to ${box.right.toFixed(0)} px: ${it.textContent.slice(0, 50)}`);
  }
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (colour, under) => {
    canvas.globalCompositeOperation = 'copy'; canvas.fillStyle = under || '#fff'; canvas.fillRect(0, 0, 1, 1);
    canvas.globalCompositeOperation = 'source-over'; canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const page = getComputedStyle(document.body).backgroundColor;
  const ground = `rgb(${rgb(page).join(',')})`;
  const drawings = [...document.querySelectorAll('svg')];
  let least = Infinity;
  for (const svg of drawings) {
    const whole = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].filter(text => text.textContent.trim());
    const boxes = texts.map(text => {
      const seen = text.getScreenCTM(), style = getComputedStyle(text);
      const px = parseFloat(style.fontSize) * Math.sqrt(Math.abs(seen.a * seen.d - seen.b * seen.c));
      least = Math.min(least, px);
      if (px < LETTER_PX_LEAST) wrong.push(`${name(svg)}: "${text.textContent.trim()}" has letters of ${px.toFixed(1)} px`);
      const isLight = svg.querySelector('rect') && !svg.classList.contains('chart');
      const under = isLight ? 'rgb(255,255,255)' : ground;
      const told = contrast(rgb(style.fill, under), rgb(under));
      if (told < CONTRAST_LEAST) wrong.push(`${name(svg)}: "${text.textContent.trim()}" has a contrast of ${told.toFixed(1)}`);
      const box = text.getBoundingClientRect();
      if (box.left < whole.left - 0.5 || box.right > whole.right + 0.5 || box.top < whole.top - 0.5 || box.bottom > whole.bottom + 0.5)
        wrong.push(`${name(svg)}: "${text.textContent.trim()}" leaves the drawing`);
      return box;
    });
    for (let a = 0; a < boxes.length; a++) for (let b = a + 1; b < boxes.length; b++) {
      const wide = Math.min(boxes[a].right, boxes[b].right) - Math.max(boxes[a].left, boxes[b].left);
      const high = Math.min(boxes[a].bottom, boxes[b].bottom) - Math.max(boxes[a].top, boxes[b].top);
      // A box has room above and below its letters.
      if (wide > 0.5 && high > 0.3 * Math.min(boxes[a].height, boxes[b].height))
        wrong.push(`${name(svg)}: "${texts[a].textContent.trim()}" and "${texts[b].textContent.trim()}" lie on each other`);
    }
  }
  for (const it of document.querySelectorAll('h1,h2,h3,p,th,td,figcaption,code,summary,pre')) {
    if (!it.offsetParent) continue;
    const style = getComputedStyle(it);
    let under = it, behind = style.backgroundColor;
    while (rgb(behind, '#000').join() !== rgb(behind, '#fff').join() && rgb(behind, '#123').join() === rgb('#123').join() && under.parentElement) {
      under = under.parentElement; behind = getComputedStyle(under).backgroundColor;
    }
    const of = rgb(behind, ground), told = contrast(rgb(style.color, `rgb(${of.join(',')})`), of);
    if (told < CONTRAST_LEAST) wrong.push(`<${it.tagName.toLowerCase()}> "${it.textContent.slice(0, 30)}" has a contrast of ${told.toFixed(1)}`);
    if (it.textContent.trim() && parseFloat(style.fontSize) < LETTER_PX_LEAST) wrong.push(`<${it.tagName}> has letters of ${style.fontSize}`);
  }
  const clips = [...document.querySelectorAll('figure, .wide')].map((it, at) => {
    const box = it.getBoundingClientRect(), kind = it.tagName === 'FIGURE' ? 'figure' : 'table';
    return {name: `${String(at + 1).padStart(3, '0')}-${kind}`, x: box.left + scrollX, y: box.top + scrollY, width: box.width, height: box.height};
  });
  return {wrong, clips, drawings: drawings.length, tables: document.querySelectorAll('table').length, least, height: document.documentElement.scrollHeight};
})()
"""


def look(browser, page, width, scheme, shots):
    """What is wrong with a page on a screen of this width; and how much there was to see."""
    target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
    session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def ask(method, **params):
        return browser.ask(method, session, **params)

    for domain in ["Page", "Runtime", "Log", "Network"]:
        ask(f"{domain}.enable")
    ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=2 if WIDTHS[width] else 1,
        mobile=WIDTHS[width])
    ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.events.clear()
    url = page.resolve().as_uri()
    ask("Page.navigate", url=url)
    browser.wait_for(session, "Page.loadEventFired")
    script = LOOK.replace("LETTER_PX_LEAST", str(LETTER_PX_LEAST)).replace("CONTRAST_LEAST", str(CONTRAST_LEAST))
    answer = ask("Runtime.evaluate", expression=script, returnByValue=True)
    if "exceptionDetails" in answer:
        raise RuntimeError(answer["exceptionDetails"])
    seen = answer["result"]["value"]
    wrong = seen["wrong"]
    for event in browser.events:
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent" and params["request"]["url"] not in (url, "data:,"):
            wrong.append(f"asks for {params['request']['url']}")
        elif method == "Runtime.exceptionThrown":
            wrong.append(f"exception: {params['exceptionDetails'].get('text')}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            wrong.append(f"{params['entry']['level']}: {params['entry']['text']}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            wrong.append(f"console: {params['args']}")
    if shots:
        folder = shots / f"{page.parent.name}-{page.stem}-{width}-{scheme}"
        folder.mkdir(parents=True, exist_ok=True)
        for clip in seen["clips"]:
            if clip["width"] >= 1 and clip["height"] >= 1:
                # Very long tables look alike further down.
                box = {"x": clip["x"], "y": clip["y"], "width": clip["width"], "height": min(clip["height"], 1500), "scale": 1}
                picture = ask("Page.captureScreenshot", format="png", clip=box, captureBeyondViewport=True)
                (folder / f"{clip['name']}.png").write_bytes(base64.b64decode(picture["data"]))
    browser.ask("Target.closeTarget", targetId=target)
    return wrong, seen


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("pages", nargs="+", type=pathlib.Path)
    words.add_argument("--shots", type=pathlib.Path, help="a folder for a picture of each drawing and table")
    words.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("chromium-browser"))
    words.add_argument("--all", action="store_true", help="every complaint instead of the first ten of each page")
    asked = words.parse_args()
    if not asked.chromium:
        sys.exit("there is no chromium: apt-get install -y --no-install-recommends chromium")
    browser = Browser(asked.chromium)
    failed = False
    try:
        for page in asked.pages:
            for width in WIDTHS:
                for scheme in SCHEMES:
                    wrong, seen = look(browser, page, width, scheme, asked.shots)
                    least = f"{seen['least']:.1f} px" if seen["least"] else "-"
                    print(f"{page}, {width} px, {scheme}: {seen['drawings']} drawings (least letter {least}), "
                          f"{seen['tables']} tables, {len(wrong)} things wrong", flush=True)
                    for what in wrong if asked.all else wrong[:10]:
                        print(f"  {what}")
                    if len(wrong) > 10 and not asked.all:
                        print(f"  and {len(wrong) - 10} more")
                    failed = failed or bool(wrong)
    finally:
        browser.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
