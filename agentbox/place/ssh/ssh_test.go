package ssh

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
	"agentbox/tools/suites/placetest"
)

// sshd runs a stock sshd on loopback for this user, whose home is a directory of the test, and
// returns a configuration of ssh that reaches it as "box". The test is skipped where there is none.
func sshd(t *testing.T) (config, knownHosts string) {
	t.Helper()
	program, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		t.Skip("no sshd here: install openssh-server")
	}
	if os.Getuid() == 0 { // it insists
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Skip(err)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"host", "mine"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().(*net.TCPAddr)
	l.Close()
	write(t, filepath.Join(dir, "sshd_config"), fmt.Sprintf(
		"Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/mine.pub\nStrictModes no\nPidFile none\nUsePAM no\nSubsystem sftp internal-sftp\nPermitRootLogin yes\nMaxStartups 100\nMaxSessions 100\n", address.Port, dir, dir))
	cmd := exec.Command(program, "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	public, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	knownHosts = filepath.Join(dir, "known_hosts")
	write(t, knownHosts, fmt.Sprintf("[127.0.0.1]:%d %s", address.Port, public))
	config = filepath.Join(dir, "config")
	write(t, config, fmt.Sprintf("Host box\n  HostName 127.0.0.1\n  Port %d\n  User %s\n  IdentityFile %s/mine\n  IdentityAgent none\n  UserKnownHostsFile %s\n  GlobalKnownHostsFile /dev/null\n", address.Port, me.Username, dir, knownHosts))
	for { // until it listens
		if conn, err := net.Dial("tcp", address.String()); err == nil {
			conn.Close()
			return config, knownHosts
		}
		if t.Context().Err() != nil || cmd.ProcessState != nil {
			t.Fatal("sshd does not listen")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSuite(t *testing.T) {
	config, _ := sshd(t)
	dir, err := os.MkdirTemp("/tmp", "ab-ssh") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := home.Home{Dir: dir}
	if err := at.Create(); err != nil {
		t.Fatal(err)
	}
	open := func() *Kind {
		k := &Kind{Home: at, Log: slog.New(slog.DiscardHandler), Config: config}
		t.Cleanup(k.Close)
		return k
	}
	placetest.Run(t, placetest.Config{
		Kind: open(), Again: func() place.Kind { return open() }, SameNetwork: true,
		Spec: func() place.Spec { return place.Spec{ID: agentbox.NewBoxID(), Account: "box"} },
	})
}

// A machine whose key is not known, or is another than before, is no place for anybody's files.
func TestHostKeys(t *testing.T) {
	config, knownHosts := sshd(t)
	other := strings.Replace(filepath.Join(filepath.Dir(config), "mine.pub"), "", "", 1)
	public, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	known, err := os.ReadFile(knownHosts)
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ := strings.Cut(string(known), " ")
	for text, want := range map[string]string{"": "is not known here", address + " " + string(public): "has changed since"} {
		write(t, knownHosts, text)
		k := &Kind{Config: config}
		_, err := k.Create(t.Context(), place.Spec{ID: agentbox.NewBoxID(), Account: "box"}, nil)
		if e := agentbox.AsError(err); agentbox.CodeOf(err) != agentbox.Unavailable || !strings.Contains(e.Message, want) || e.Hint == "" {
			t.Errorf("%q: %+v", text, err)
		}
	}
}
