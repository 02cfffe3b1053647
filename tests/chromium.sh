#!/bin/sh
# Makes sure that the browser tests find a Chromium: the system's, else Debian's package, else
# Playwright's own. Does nothing when one is there. Usage: chromium.sh PYTHON
set -eu
python=$1

found() {
    for name in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
        if command -v "$name" >/dev/null 2>&1; then return 0; fi
    done
    "$python" - <<'END'
import pathlib, sys
from playwright.sync_api import sync_playwright

with sync_playwright() as playwright:
    sys.exit(not pathlib.Path(playwright.chromium.executable_path).exists())
END
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

if found; then exit 0; fi
if command -v apt-get >/dev/null 2>&1 && as_root true 2>/dev/null; then
    echo "Installing Debian's Chromium for the browser tests"
    as_root apt-get update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive \
            sh -c 'apt-get install -y -qq --no-install-recommends chromium-headless-shell ||
                apt-get install -y -qq --no-install-recommends chromium' >/dev/null 2>&1 ||
        echo "apt-get could not install Chromium; trying Playwright's own" >&2
    if found; then exit 0; fi
fi
echo "Installing Playwright's Chromium for the browser tests"
if "$python" -m playwright install chromium && found; then exit 0; fi
echo "The browser tests need Chromium: install chromium or google-chrome and run make test again" >&2
exit 1
