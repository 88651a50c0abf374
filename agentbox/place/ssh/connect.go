package ssh

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"agentbox/agentbox"
)

// connectTimeout bounds a connection, with all machines on the way.
const connectTimeout = 30 * time.Second

// settings are what ssh would connect with: values of `ssh -G` by option, in lower case.
type settings map[string][]string

// read parses the output of `ssh -G`.
func read(out []byte) settings {
	s := settings{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok {
			s[strings.ToLower(name)] = append(s[strings.ToLower(name)], value)
		}
	}
	return s
}

// get is the first value of an option, "" for none.
func (s settings) get(name string) string {
	if values := s[name]; len(values) > 0 && values[0] != "none" {
		return values[0]
	}
	return ""
}

func (s settings) files(names ...string) (out []string) {
	for _, name := range names {
		for _, value := range s[name] {
			for path := range strings.FieldsSeq(value) {
				if rest, ok := strings.CutPrefix(path, "~/"); ok {
					home, _ := os.UserHomeDir()
					path = filepath.Join(home, rest)
				}
				if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
					out = append(out, path)
				}
			}
		}
	}
	return out
}

// dial connects to an account. config is a file in place of the user's, "" for that. The error is
// Missing without ssh on this machine, else Unavailable.
func dial(ctx context.Context, account, config string) (*ssh.Client, error) {
	if err := agentbox.CheckMachine(account); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	argv := []string{"-G"}
	if config != "" {
		argv = append(argv, "-F", config)
	}
	out, err := exec.CommandContext(ctx, "ssh", append(argv, "--", account)...).Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, agentbox.Errorf(agentbox.Missing, "ssh isolation needs OpenSSH on this machine").WithHint("install openssh-client")
	}
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "ssh does not know how to connect to %s: %w", account, err).WithHint("ssh -G %s says why", account)
	}
	s := read(out)
	login, closeAgent, err := s.login()
	if err != nil {
		return nil, err
	}
	defer closeAgent()
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "%s does not answer: %w", account, err).WithHint("ssh %s shows whether it can be reached", account)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	address := net.JoinHostPort(s.hostAlias(), s.get("port"))
	c, chans, reqs, err := ssh.NewClientConn(conn, address, login)
	if err != nil {
		conn.Close()
		return nil, explain(account, err)
	}
	return ssh.NewClient(c, chans, reqs), nil
}

func (s settings) hostAlias() string {
	if alias := s.get("hostkeyalias"); alias != "" {
		return alias
	}
	return s.get("hostname")
}

// connect opens the stream to the machine, as ssh would: directly or through others.
func (s settings) connect(ctx context.Context) (net.Conn, error) {
	target := net.JoinHostPort(s.get("hostname"), s.get("port"))
	if command := s.get("proxycommand"); command != "" {
		// The user's own configuration. ssh -G leaves its tokens as they are.
		command = strings.NewReplacer("%h", s.get("hostname"), "%p", s.get("port"), "%r", s.get("user"), "%%", "%").Replace(command)
		return pipe(exec.Command("sh", "-c", "exec "+command))
	}
	if jump := s.get("proxyjump"); jump != "" {
		argv := []string{"-W", target}
		if i := strings.LastIndexByte(jump, ','); i >= 0 {
			argv, jump = append(argv, "-J", jump[:i]), jump[i+1:]
		}
		return pipe(exec.Command("ssh", append(argv, "--", jump)...))
	}
	return new(net.Dialer).DialContext(ctx, "tcp", target)
}

func (s settings) login() (*ssh.ClientConfig, func(), error) {
	hosts, err := knownhosts.New(s.files("userknownhostsfile", "globalknownhostsfile")...)
	if err != nil {
		return nil, nil, agentbox.Errorf(agentbox.Unavailable, "the file of known hosts: %w", err)
	}
	var signers []ssh.Signer
	closeAgent := func() {}
	socket := s.get("identityagent")
	if socket == "" || socket == "SSH_AUTH_SOCK" {
		socket = os.Getenv("SSH_AUTH_SOCK")
	}
	if conn, err := net.Dial("unix", socket); err == nil && socket != "" {
		closeAgent = func() { conn.Close() }
		if of, err := agent.NewClient(conn).Signers(); err == nil {
			signers = append(signers, of...)
		}
	}
	for _, path := range s.files("identityfile") {
		if b, err := os.ReadFile(path); err == nil {
			if key, err := ssh.ParsePrivateKey(b); err == nil { // one with a passphrase is the agent's
				signers = append(signers, key)
			}
		}
	}
	return &ssh.ClientConfig{
		User: s.get("user"), Auth: []ssh.AuthMethod{ssh.PublicKeys(signers...)}, HostKeyCallback: hosts,
		HostKeyAlgorithms: knownAlgorithms(hosts, net.JoinHostPort(s.hostAlias(), s.get("port"))),
	}, closeAgent, nil
}

// knownAlgorithms are the algorithms of the host keys that are known for an address: a machine that
// offers another kind of key first would seem to be a stranger. nil means any.
func knownAlgorithms(hosts ssh.HostKeyCallback, address string) (out []string) {
	var unknown *knownhosts.KeyError
	if !errors.As(hosts(address, &net.TCPAddr{}, noKey{}), &unknown) {
		return nil
	}
	for _, known := range unknown.Want {
		switch kind := known.Key.Type(); kind {
		case ssh.KeyAlgoRSA:
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		default:
			out = append(out, kind)
		}
	}
	return out
}

// noKey is a host key that nobody has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

func explain(account string, err error) error {
	var key *knownhosts.KeyError
	failed := agentbox.Errorf(agentbox.Unavailable, "%s: %w", account, err)
	switch {
	case errors.As(err, &key) && len(key.Want) == 0:
		return agentbox.Errorf(agentbox.Unavailable, "the host key of %s is not known here", account).WithHint("ssh %s once, and answer whether it is right", account)
	case errors.As(err, &key):
		return agentbox.Errorf(agentbox.Unavailable, "the host key of %s has changed since it became known in %s line %d", account, key.Want[0].Filename, key.Want[0].Line).
			WithHint("another machine may answer in its place: find out before you remove the line")
	case strings.Contains(err.Error(), "unable to authenticate"):
		return failed.WithHint("a key without a passphrase, or one in an agent, must be allowed to log in: ssh-add")
	}
	return failed
}
