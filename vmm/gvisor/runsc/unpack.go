package runsc

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/vmm/statedir"
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

	// mu guards known and ids, and is held while files are hashed and unpacked: the first caller
	// does it for all.
	mu    sync.Mutex
	known Programs
	ids   identities // of known
}

// identities are those of the three files: as long as they are the same, so are the bytes.
type identities [3]durable.Identity

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
	if ids, err := u.known.identify(); err == nil && ids == u.ids {
		return u.known, nil
	}
	all, version, err := u.programs()
	if err != nil {
		return Programs{}, err
	}
	p := placed(u.root, all)
	p.Version = version
	var verified identities
	ids, err := p.identify()
	if err != nil || durable.ReadJSON(p.memo(), &verified) != nil || ids != verified {
		if ids, err = p.verify(all); err != nil {
			return Programs{}, statedir.HostError(fmt.Errorf("unpack gVisor: %w", err))
		}
	}
	u.known, u.ids = p, ids
	return p, nil
}

// program is what one of the programs must be, and where its bytes come from.
type program struct {
	name   string
	digest agentbox.Digest
	bytes  func() ([]byte, error)
}

// programs describes all three, and gives the version of gVisor. It reads the small descriptions
// only: a program's bytes are unpacked when its file lacks them.
func (u *Unpacker) programs() (all []program, version string, err error) {
	for _, name := range []string{runscName, launchName} {
		a, err := aboutEmbedded(u.from, name)
		if err != nil {
			return nil, "", err
		}
		all = append(all, program{name, a.Digest, func() ([]byte, error) { return unpack(u.from, name, a.Size) }})
		version = cmp.Or(version, a.Version) // runsc's
	}
	digest, err := u.agent.Digest()
	return append(all, program{agentName, digest, u.agent.Bytes}), version, err
}

// placed are where the files belong below root, whether they exist or not.
func placed(root string, all []program) Programs {
	h := sha256.New()
	for _, p := range all {
		fmt.Fprintln(h, p.digest)
	}
	digest := fmt.Sprintf("%x", h.Sum(nil))
	dir := filepath.Join(root, digest[:16])
	return Programs{
		Runsc: filepath.Join(dir, runscName), Launch: filepath.Join(dir, launchName), Agent: filepath.Join(dir, agentName),
		Digest: digest,
	}
}

// memo has the identities of files that were verified.
func (p Programs) memo() string { return filepath.Join(filepath.Dir(p.Runsc), memoName) }

// identify looks at the files as they are now.
func (p Programs) identify() (ids identities, err error) {
	for i, path := range []string{p.Runsc, p.Launch, p.Agent} {
		if ids[i], err = durable.Identify(path); err != nil {
			return ids, err
		}
	}
	return ids, nil
}

// verify hashes the files, replaces those that are not right, and remembers. The memo is written
// last: an unpacking that was cut short is found by its digests the next time.
func (p Programs) verify(all []program) (identities, error) {
	dir := filepath.Dir(p.Runsc)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return identities{}, err
	}
	for _, want := range all {
		if err := want.put(filepath.Join(dir, want.name)); err != nil {
			return identities{}, err
		}
	}
	if err := removeOthers(dir); err != nil {
		return identities{}, err
	}
	ids, err := p.identify()
	if err != nil {
		return ids, err
	}
	return ids, durable.WriteJSON(p.memo(), ids, 0o600)
}

// put makes the program the file at path, unless it is that already.
func (p program) put(path string) error {
	if isRegular(path) {
		if d, err := agentbox.DigestFile(path); err == nil && d == p.digest {
			return nil
		}
	}
	b, err := p.bytes()
	if err != nil {
		return err
	}
	if digestOf(b) != p.digest {
		return damaged(p.name)
	}
	return durable.WriteFile(path, b, 0o755)
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
