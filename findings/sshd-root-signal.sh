#!/bin/sh
# openssh-server 1:9.2p1 (Debian 12): the "signal" request of a session (RFC 4254, 6.9), asked with want_reply by golang.org/x/crypto v0.53.0.
# Expected: as OpenSSH delivers signals since 7.9, TERM ends `sleep 30` of whoever has logged in.
# Seen: for an ordinary user it does; for root the server answers with failure and sends nothing, as its process that is to signal
# is only there where privileges are dropped after the login. A client that waits for the command's end waits in vain.
# Output: root: signal accepted=false ended=false / user: signal accepted=true ended=true
# Exits with 1 if that changes. Needs root, and changes nothing outside of its own mount namespace and folder.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download openssh-server=1:9.2p1-2+deb12u10 openssh-sftp-server=1:9.2p1-2+deb12u10 libwrap0 >/dev/null 2>&1
for p in *.deb; do dpkg -x "$p" .; done
mkdir go && cd go
cat >main.go <<'EOF'
package main

import (
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"golang.org/x/crypto/ssh"
)

type pipe struct {
	io.Reader
	io.WriteCloser
}

func (pipe) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (pipe) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (pipe) SetDeadline(time.Time) error      { return nil }
func (pipe) SetReadDeadline(time.Time) error  { return nil }
func (pipe) SetWriteDeadline(time.Time) error { return nil }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func key(file string) ssh.Signer {
	_, private, err := ed25519.GenerateKey(nil)
	must(err)
	block, err := ssh.MarshalPrivateKey(private, "")
	must(err)
	must(os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	signer, err := ssh.NewSignerFromKey(private)
	must(err)
	return signer
}

func main() {
	dir := os.Args[1]
	key(dir + "/host")
	login := key(dir + "/login")
	must(os.WriteFile(dir+"/keys", ssh.MarshalAuthorizedKey(login.PublicKey()), 0o644))
	config := "HostKey " + dir + "/host\nAuthorizedKeysFile " + dir + "/keys\nPermitRootLogin yes\nStrictModes no\nUsePAM no\n"
	must(os.WriteFile(dir+"/config", []byte(config), 0o644))
	for _, user := range []string{"root", "user"} {
		server := exec.Command(dir+"/usr/sbin/sshd", "-i", "-f", dir+"/config")
		in, _ := server.StdinPipe()
		out, _ := server.StdoutPipe()
		must(server.Start())
		conn, chans, reqs, err := ssh.NewClientConn(pipe{out, in}, "", &ssh.ClientConfig{
			User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(login)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		})
		must(err)
		session, err := ssh.NewClient(conn, chans, reqs).NewSession()
		must(err)
		said, _ := session.StdoutPipe()
		must(session.Start("echo begun; exec sleep 30"))
		_, err = io.ReadFull(said, make([]byte, 6))
		must(err)
		accepted, err := session.SendRequest("signal", true, ssh.Marshal(struct{ Name string }{"TERM"}))
		must(err)
		ended := make(chan error, 1)
		go func() { ended <- session.Wait() }()
		select {
		case <-ended:
			fmt.Printf("%s: signal accepted=%v ended=true\n", user, accepted)
		case <-time.After(10 * time.Second):
			fmt.Printf("%s: signal accepted=%v ended=false\n", user, accepted)
		}
		server.Process.Kill()
		server.Wait()
	}
}
EOF
go mod init signal >/dev/null 2>&1
go get golang.org/x/crypto@v0.53.0 >/dev/null 2>&1
CGO_ENABLED=0 go build -o ../probe .
cd ..
chmod 755 "$dir"
cat >passwd <<'EOF'
root:x:0:0::/root:/bin/sh
sshd:x:64000:64000::/nowhere:/bin/false
user:x:64001:64001::/:/bin/sh
EOF
printf 'root:*:1::::::\nuser:*:1::::::\n' >shadow
unshare -m sh -c 'mount -t tmpfs none /run; mkdir -m 755 /run/sshd; mount --bind passwd /etc/passwd; mount --bind shadow /etc/shadow
  LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu ./probe "$PWD"' >said 2>errors || { cat errors; exit 1; }
cat said
printf 'root: signal accepted=false ended=false\nuser: signal accepted=true ended=true\n' | cmp - said
