# Installs a Go toolchain to /usr/local/go. $1 is a version, with or without its patch: 1.22, 1.22.3.
# The module golang.org/toolchain has every toolchain, and any go command verifies it with the checksum database; the
# distribution's is there for that alone, and goes again unless it was here before.
arch=$(dpkg --print-architecture)
before=$(dpkg-query -W -f '${db:Status-Status}' golang-go 2>/dev/null || true)
apt-get -y --no-install-recommends install golang-go
GOMODCACHE=$(mktemp -d) GOPATH=$(mktemp -d) GOCACHE=$(mktemp -d)
export GOMODCACHE GOPATH GOCACHE GOFLAGS=-modcacherw GOTOOLCHAIN=local
case $1 in
*.*.* | *rc* | *beta*) version=$1 ;;
*)
	form=$(printf %s "$1" | sed 's/\./\\./g')
	version=$(go list -m -versions golang.org/toolchain | tr ' ' '\n' |
		sed -n "s/^v0\.0\.1-go\($form\.[0-9]*\)\.linux-$arch\$/\1/p" | sort -V | tail -n 1)
	version=${version:-$1.0}
	;;
esac
module=golang.org/toolchain@v0.0.1-go$version.linux-$arch
go mod download "$module"
rm -rf /usr/local/go
mv "$GOMODCACHE/$module" /usr/local/go
# A module's archive has no modes.
find /usr/local/go/bin /usr/local/go/pkg/tool -type f -exec chmod 755 {} +
[ "$before" = installed ] || apt-get -y purge --autoremove golang-go
hash -r
ln -sf ../go/bin/go ../go/bin/gofmt /usr/local/bin/
rm -rf "$GOMODCACHE" "$GOPATH" "$GOCACHE"
/usr/local/go/bin/go version
