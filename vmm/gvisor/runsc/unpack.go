package runsc

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// Names of the programs, embedded and unpacked.
const (
	runscName  = "runsc"
	launchName = "launch"
	agentName  = "agent"
	memoName   = "verified.json"
)

// Programs are unpacked and verified.
type Programs struct {
	// The first three are absolute paths if the Unpacker's root is one.
	Runsc   string // gVisor's runtime
	Launch  string // the launcher
	Agent   string // the guest agent
	Version string // of gVisor
	Digest  string // of all three, hex: what a template depends on
}

// Unpacker keeps the programs unpacked below a directory, one directory for each version of them.
// Its methods may be called from any goroutine.
type Unpacker struct {
	root  string
	agent Agent
	from  fs.FS

	mu sync.Mutex
	// mu guards known and ids, and is held while files are hashed and unpacked: the first caller
	// does it for all.
	known *Programs
	ids   memo // of known
}

// Agent is the guest agent: Digest, which every machine asks for, says what Bytes, which unpacks,
// gives. Digest is cheap and called at each start, Bytes decompresses.
type Agent struct {
	Digest func() (agentbox.Digest, error)
	Bytes  func() ([]byte, error)
}

// New makes an Unpacker. root need not exist.
func New(root string, agent Agent) *Unpacker {
	return &Unpacker{root: root, agent: agent, from: embedded}
}

// Ensure gives the programs, unpacking them when they are not there. Each is hashed the first time,
// and whenever its file has changed since: inode, size, time of change, which every write renews. A
// file that is not what it was is replaced. So what it costs again and again is three calls of
// stat. Errors have code Missing, Corrupt or NoSpace, or are those of the file system.
func (u *Unpacker) Ensure() (Programs, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known != nil && u.ids.holds(u.known.paths()) {
		return *u.known, nil
	}
	content, err := u.contents()
	if err != nil {
		return Programs{}, err
	}
	p := content.programs(u.root)
	known := readMemo(filepath.Join(filepath.Dir(p.Runsc), memoName))
	if !known.holds(p.paths()) {
		if known, err = content.verify(p); err != nil {
			return Programs{}, hostError(err)
		}
	}
	u.known, u.ids = &p, known
	return p, nil
}

// contents says what the programs must be. It reads the small descriptions only; a program's bytes
// are unpacked when its file lacks them.
type contents struct {
	from  fs.FS
	about map[string]About
	agent func() ([]byte, error)
}

// contents asks for all three digests.
func (u *Unpacker) contents() (contents, error) {
	c := contents{from: u.from, about: map[string]About{}, agent: u.agent.Bytes}
	for _, name := range []string{runscName, launchName} {
		a, err := aboutEmbedded(u.from, name)
		if err != nil {
			return c, err
		}
		c.about[name] = a
	}
	digest, err := u.agent.Digest()
	c.about[agentName] = About{Digest: digest}
	return c, err
}

// unpack gives the bytes of a program.
func (c contents) unpack(name string) ([]byte, error) {
	if name != agentName {
		return unpack(c.from, name, c.about[name])
	}
	b, err := c.agent()
	if err == nil && digestOf(b) != c.about[name].Digest {
		err = agentbox.Errorf(agentbox.Corrupt, "the embedded guest agent is damaged").WithHint("install agentbox again, or build it with `make build`")
	}
	return b, err
}

// programs are where the files belong below root, whether they exist or not.
func (c contents) programs(root string) Programs {
	h := sha256.New()
	for _, name := range []string{runscName, launchName, agentName} {
		fmt.Fprintln(h, c.about[name].Digest)
	}
	digest := fmt.Sprintf("%x", h.Sum(nil))
	dir := filepath.Join(root, digest[:16])
	return Programs{
		Runsc: filepath.Join(dir, runscName), Launch: filepath.Join(dir, launchName), Agent: filepath.Join(dir, agentName),
		Version: c.about[runscName].Version, Digest: digest,
	}
}

func (p Programs) paths() []string { return []string{p.Runsc, p.Launch, p.Agent} }

// verify hashes the files, replaces those that are not right, and remembers. The memo is written
// last: an unpacking that was cut short is found by its digests the next time.
func (c contents) verify(p Programs) (memo, error) {
	dir := filepath.Dir(p.Runsc)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return memo{}, err
	}
	for _, path := range p.paths() {
		name := filepath.Base(path)
		if isRegular(path) {
			if d, err := agentbox.DigestFile(path); err == nil && d == c.about[name].Digest {
				continue
			}
		}
		b, err := c.unpack(name)
		if err != nil {
			return memo{}, err
		}
		if err := durable.WriteFile(path, b, 0o755); err != nil {
			return memo{}, err
		}
	}
	if err := removeOthers(dir); err != nil {
		return memo{}, err
	}
	m, err := identifyAll(p.paths())
	if err != nil {
		return m, err
	}
	b, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	return m, durable.WriteFile(filepath.Join(dir, memoName), b, 0o600)
}

// isRegular is false for a link, which must not be followed to somebody else's file, and for what
// does not exist.
func isRegular(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// removeOthers removes the programs of other versions from beside dir. Machines that run have
// theirs open; a process of the other version unpacks it again.
func removeOthers(dir string) error {
	all, err := os.ReadDir(filepath.Dir(dir))
	for _, e := range all {
		if e.Name() != filepath.Base(dir) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(filepath.Dir(dir), e.Name())))
		}
	}
	return err
}

func digestOf(b []byte) agentbox.Digest { return agentbox.Digest(sha256.Sum256(b)) }

// hostError says what failed, and gives a full disk its code.
func hostError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return agentbox.Errorf(agentbox.NoSpace, "unpack gVisor: %w", err).WithHint("free some disk space (agentbox prune shows what can go), then try again")
	}
	return fmt.Errorf("unpack gVisor: %w", err)
}
