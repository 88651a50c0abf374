# Installs programs of the npm registry to /usr/local. The arguments are NAME or NAME@VERSION.
# What npm downloaded would stay in its cache, and in the image, a second time.
cache=$(mktemp -d)
npm install --global --prefix /usr/local --cache "$cache" --no-fund --no-audit --no-update-notifier "$@"
rm -rf "$cache"
