#!/bin/sh
# Copies the two fonts of the dashboard from their npm packages, with their licences. Fails if they
# are not the files of SHA256SUMS; for a new version, check the fonts and write new sums first.
set -eu
target=$(cd "$(dirname "$0")/.." && pwd)/graphviz_dash/ui/assets/fonts
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >/dev/null
npm install --silent @fontsource-variable/inter@5.3.0 @fontsource-variable/jetbrains-mono@5.3.0
for font in inter jetbrains-mono; do
    from=node_modules/@fontsource-variable/$font
    cp "$from/files/$font-latin-wght-normal.woff2" "$target/$font.woff2"
    cp "$from/LICENSE" "$target/$font.LICENSE"
done
cd "$target"
sha256sum --check --strict SHA256SUMS
