# In a box: a picture of $SHOT_URL in a window of $SHOT_SIZE, by the browser that the box has. It prints
# the file's name.
for browser in chromium chromium-browser google-chrome-stable google-chrome chrome "$HOME"/.cache/ms-playwright/chromium*/chrome-linux*/*; do
	case $browser in */*) case ${browser##*/} in chrome | headless_shell | chrome-headless-shell) ;; *) continue ;; esac ;; esac
	browser=$(command -v "$browser") || continue
	dir=$(mktemp -d) || exit 1
	"$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run --user-data-dir="$dir/profile" \
		--window-size="$SHOT_SIZE" --virtual-time-budget=5000 --screenshot="$dir/page.png" -- "$SHOT_URL" >&2
	rm -rf "$dir/profile"
	[ -s "$dir/page.png" ] || exit 1
	printf %s "$dir/page.png"
	exit 0
done
exit 127
