"""Take a picture of an explorer on a page of `slgh reproduce`, in true color, light and dark.

    slgh reproduce himmelblau --out out
    python tools/page_picture.py out/index.html docs/images/page.png

Needs playwright and Chromium. The dark picture has the same name with "_dark" at its end.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Literal

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Commands that may start Chromium. Without them, playwright's own is used."""

FLAGS = ["--no-sandbox", "--use-gl=swiftshader", "--enable-unsafe-swiftshader", "--hide-scrollbars"]
"""WebGL, which surfaces need, runs without a graphics card."""

SCHEMES: dict[Literal["light", "dark"], str] = {"light": "", "dark": "_dark"}
"""Color schemes, and the end of the file's name."""

WIDTH, HEIGHT = 1160, 900
"""Size of the window."""


def main(words: list[str] | None = None) -> None:
    """Take both pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, help="The page.")
    parser.add_argument("file", type=Path, help="The picture, a PNG file.")
    parser.add_argument("--section", default="himmelblau", help="Section whose explorer is shown.")
    parser.add_argument("--share", type=float, default=0.6, help="Share of the path that is drawn bold.")
    args = parser.parse_args(words)

    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        for scheme, more in SCHEMES.items():
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
            page.goto(args.page.resolve().as_uri())
            explorer = page.locator(f"#{args.section}-explorer")
            explorer.scroll_into_view_if_needed()
            explorer.locator(".map .main-svg").first.wait_for()
            explorer.locator(".k input").evaluate(
                "(slider, share) => { slider.value = Math.round(share * slider.max);"
                " slider.dispatchEvent(new Event('input', {bubbles: true})); }",
                args.share,
            )
            page.wait_for_timeout(1500)  # the surface is drawn in its own time
            file = args.file.with_stem(args.file.stem + more)
            # Hide all but the controls and the two maps: the whole explorer is too tall for a README.
            explorer.locator(".panel").evaluate_all("panels => panels.slice(2).forEach(one => one.remove())")
            explorer.screenshot(path=file)
            print(file)
        browser.close()


if __name__ == "__main__":
    main()
