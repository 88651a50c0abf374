#!/bin/sh
# github.com/pkg/sftp v1.13.12, client and server, beside openssh-sftp-server 1:9.2p1 (Debian 12); Go 1.26
#
# SSH File Transfer Protocol, version 3, 6.3: "SSH_FXF_APPEND Force all writes to append data at the end of
# the file."
# Expected of Client.OpenFile(name, os.O_WRONLY|os.O_APPEND), as of os.OpenFile: what is written comes after
# what is there.
# Seen: so it does where OpenSSH serves. Served by the same library's NewServer it overwrites the file from
# its beginning, without an error: the server takes the flag for the client's business (it sends the
# offsets), and the client leaves it to the server and begins at 0. Whoever appends to a log this way loses
# its head. The client has to Seek to the end first, which is right with both servers.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/append

go 1.26

require github.com/pkg/sftp v1.13.12
M
cat >main.go <<'M'
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pkg/sftp"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ours() *sftp.Client {
	near, far := net.Pipe()
	go must(sftp.NewServer(far)).Serve()
	return must(sftp.NewClientPipe(near, near))
}

func openssh() *sftp.Client {
	server := exec.Command("usr/lib/openssh/sftp-server")
	in, out := must(server.StdinPipe()), must(server.StdoutPipe())
	if err := server.Start(); err != nil {
		panic(err)
	}
	return must(sftp.NewClientPipe(out, in))
}

func main() {
	name := must(filepath.Abs("log"))
	try := func(what string, client *sftp.Client, seek bool) {
		defer client.Close()
		if err := os.WriteFile(name, []byte("first,"), 0o600); err != nil {
			panic(err)
		}
		f := must(client.OpenFile(name, os.O_WRONLY|os.O_APPEND))
		if seek {
			must(f.Seek(0, io.SeekEnd))
		}
		must(f.Write([]byte("new")))
		if err := f.Close(); err != nil {
			panic(err)
		}
		fmt.Printf("%s: %s\n", what, must(os.ReadFile(name)))
	}
	try("OpenSSH's server", openssh(), false)
	try("the library's server", ours(), false)
	try("OpenSSH's server, after a seek", openssh(), true)
	try("the library's server, after a seek", ours(), true)
}
M
apt-get download openssh-sftp-server=1:9.2p1-2+deb12u10 >/dev/null 2>&1 &&
	dpkg-deb -x openssh-sftp-server_*.deb . &&
	GOFLAGS=-mod=mod GOWORK=off go build -o append . || { echo "could not be installed" >&2; exit 2; }
./append >seen
cat seen
cmp - seen <<'M'
OpenSSH's server: first,new
the library's server: newst,
OpenSSH's server, after a seek: first,new
the library's server, after a seek: first,new
M
