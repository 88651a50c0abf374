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
	"agentbox/agentbox/packed"
	"agentbox/vmm/statedir"
)

// Names of the programs, embedded and unpacked.
const (
	runscName  = "runsc"
	launchName = "launch"
	agentName  = "agent"
	memoName   = "verified.json"
)

// Programs are unpacked and verified programs. The paths are absolute if the Unpacker's root is.
type Programs struct {
	Runsc   string // path of gVisor's runtime
	Launch  string // path of the launcher
	Agent   string // path of the guest agent
	Version string // of gVisor
	Digest  string // of all three, hex; templates depend on it
}

// Unpacker unpacks the programs into a directory for each version, below root. Its methods may be
// called from any goroutine.
type Unpacker struct {
	root  string
	agent Agent
	from  fs.FS

	// mu guards known and ids, and is held while files are hashed and unpacked.
	mu    sync.Mutex
	known Programs
	ids   identities // of known
}

// identities are those of the three files. While they are the same, so are the bytes.
type identities [3]durable.Identity

// Agent is the guest agent.
type Agent struct {
	Digest func() (agentbox.Digest, error) // of Bytes; cheap, and called at each start
	Bytes  func() ([]byte, error)          // decompresses the program
}

// New makes an Unpacker. root need not exist.
func New(root string, agent Agent) *Unpacker {
	return &Unpacker{root: root, agent: agent, from: embedded}
}

// Ensure returns the programs, and unpacks them if they are missing or damaged. It hashes each file
// the first time, and again if its identity (inode, size, ctime) has changed, so most calls cost
// three calls of stat. Errors have code Missing, Corrupt or NoSpace, or are those of the file
// system.
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

// program is what one of the programs must be, and how it gets into a file.
type program struct {
	name   string
	digest agentbox.Digest
	put    func(file string) error
}

// programs describes all three, and returns the version of gVisor. It unpacks nothing.
func (u *Unpacker) programs() (all []program, version string, err error) {
	for _, name := range []string{runscName, launchName} {
		p := embeddedIn(u.from, name)
		about, err := p.About()
		if err != nil {
			return nil, "", withoutGVisor(err)
		}
		all = append(all, program{name, about.Digest, p.Put})
		version = cmp.Or(version, about.Version) // runsc's
	}
	digest, err := u.agent.Digest()
	return append(all, program{agentName, digest, u.putAgent}), version, err
}

// putAgent writes the guest agent to file, unless it is there already.
func (u *Unpacker) putAgent(file string) error {
	want, err := u.agent.Digest()
	if err != nil || packed.Holds(file, want) {
		return err
	}
	b, err := u.agent.Bytes()
	if err != nil {
		return err
	}
	if sha256.Sum256(b) != want {
		return agentbox.Errorf(agentbox.Corrupt, "the embedded guest agent is damaged").WithHint("install agentbox again, or build it with `make build`")
	}
	return durable.WriteFile(file, b, 0o755)
}

// placed returns the paths of the files below root, whether they exist or not.
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

// memo is the file with the identities of verified files.
func (p Programs) memo() string { return filepath.Join(filepath.Dir(p.Runsc), memoName) }

func (p Programs) identify() (ids identities, err error) {
	for i, path := range []string{p.Runsc, p.Launch, p.Agent} {
		if ids[i], err = durable.Identify(path); err != nil {
			return ids, err
		}
	}
	return ids, nil
}

// verify hashes the files, replaces those that are wrong, and writes the memo last, so that after a
// crash the next process hashes them again.
func (p Programs) verify(all []program) (identities, error) {
	dir := filepath.Dir(p.Runsc)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return identities{}, err
	}
	for _, want := range all {
		if err := want.put(filepath.Join(dir, want.name)); err != nil {
			return identities{}, withoutGVisor(err)
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

// removeOthers removes the directories of other versions. Running machines have their programs
// open, and a process of another version unpacks its own again.
func removeOthers(dir string) error {
	all, err := os.ReadDir(filepath.Dir(dir))
	for _, e := range all {
		if e.Name() != filepath.Base(dir) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(filepath.Dir(dir), e.Name())))
		}
	}
	return err
}
