# Installs a program of the npm registry that runs without Node.js, below /usr/local. $1 to $3 name its archive: the path below the
# registry that archives have by convention, the URL that the registry gives, and the SHA-512. $4 is the program's file in it.
dir=$(mktemp -d)
for url in "$2" "${NPM_CONFIG_REGISTRY%/}/$1"; do # a mirror may give URLs of what it mirrors
	/usr/lib/apt/apt-helper -qq -o Acquire::Retries=2 -o Acquire::http::Proxy=DIRECT -o Acquire::https::Proxy=DIRECT \
		download-file "$url" "$dir/package.tgz" "SHA512:$3" && break
done
program=${4##*/}
home=/usr/local/lib/native-programs/$program
rm -rf "$home"
mkdir -p "$home"
tar -xzf "$dir/package.tgz" -C "$home" --strip-components 1 --no-same-owner
chmod 755 "$home/$4"
ln -sf "../lib/native-programs/$program/$4" "/usr/local/bin/$program"
rm -rf "$dir"
