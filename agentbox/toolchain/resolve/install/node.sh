# Installs a Node.js of the npm registry, and npm, to /usr/local. $1 to $3 name the archive of Node.js, $4 to $6 that of npm:
# the path below the registry that archives have by convention, the URL that the registry gives, and the SHA-512.
# The distribution's npm could get them as well; it is some four hundred packages, which take minutes.
fetch() {
	for url in "$2" "${NPM_CONFIG_REGISTRY%/}/$1"; do # a mirror may give URLs of what it mirrors
		/usr/lib/apt/apt-helper -qq -o Acquire::Retries=2 -o Acquire::http::Proxy=DIRECT -o Acquire::https::Proxy=DIRECT \
			download-file "$url" "$4" "SHA512:$3" && return
	done
	return 1
}
dir=$(mktemp -d)
fetch "$1" "$2" "$3" "$dir/node.tgz"
fetch "$4" "$5" "$6" "$dir/npm.tgz"
tar -xzf "$dir/node.tgz" -C "$dir" package/bin/node
install -m 755 "$dir/package/bin/node" /usr/local/bin/node
/usr/local/bin/node --version || { # most images have what it is linked against
	apt-get -q update
	apt-get -y --no-install-recommends install libatomic1
	/usr/local/bin/node --version
}
npm=/usr/local/lib/node_modules/npm
rm -rf "$npm"
mkdir -p "$npm"
tar -xzf "$dir/npm.tgz" -C "$npm" --strip-components 1 --no-same-owner
ln -sf ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
ln -sf ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
rm -rf "$dir"
/usr/local/bin/npm --version
