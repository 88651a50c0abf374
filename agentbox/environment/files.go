package environment

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/vmm/guest/protocol"
)

// Files is an SFTP session: the files of the environment as one of its users sees them. Its methods
// are safe for concurrent use.
type Files struct {
	sftp  *sftp.Client
	guard *guard
	stop  func() bool
}

// OpenFiles begins an SFTP session as user ("" is whom the client logged in as). It lasts until ctx
// ends, or Close or the client's end: ctx is not only for opening it.
func OpenFiles(ctx context.Context, client *ssh.Client, user string) (*Files, error) {
	ch, reqs, err := OpenChannel(ctx, client, "session", nil)
	if err != nil {
		return nil, explainRefusal(err)
	}
	go ssh.DiscardRequests(reqs)
	if user != "" {
		ch.SendRequest(protocol.UserRequest, false, ssh.Marshal(struct{ User string }{user}))
	}
	if err := startSubsystem(ctx, ch, "sftp"); err != nil {
		ch.Close()
		return nil, err
	}
	return NewFiles(ctx, ch)
}

// NewFiles is OpenFiles over a stream that has an SFTP server at its other end. It closes the stream.
func NewFiles(ctx context.Context, stream io.ReadWriteCloser) (*Files, error) {
	g := newGuard(stream)
	stop := context.AfterFunc(ctx, func() { g.fail(context.Cause(ctx)) })
	c, err := sftp.NewClientPipe(g, g, sftp.UseConcurrentWrites(true), sftp.UseFstat(true))
	if err != nil {
		stop()
		g.Close()
		return nil, g.explain(err)
	}
	return &Files{sftp: c, guard: g, stop: stop}, nil
}

// startSubsystem asks for a subsystem by name, RFC 4254, 6.5.
func startSubsystem(ctx context.Context, ch ssh.Channel, name string) error {
	ok, err := Request(ctx, ch, "subsystem", ssh.Marshal(struct{ Name string }{name}))
	if err == nil && !ok {
		err = agentbox.Errorf(agentbox.Unavailable, "the box does not offer the subsystem %s", name).WithHint("a box that an earlier build started has it after agentbox reset")
	}
	return err
}

// Close ends the session. Methods that are running fail. It does not close the client.
func (f *Files) Close() error {
	f.stop()
	err := f.sftp.Close()
	f.guard.Close()
	return err
}

// failure explains what failed with a path in the box. It keeps our own errors, and gives others
// the code that fits.
func (f *Files) failure(doing, name string, err error) error {
	if err = f.guard.explain(err); errors.As(err, new(*agentbox.Error)) || errors.Is(err, context.Canceled) {
		return err
	}
	// The user can mend missing rights, so that is no internal error.
	code := agentbox.Internal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = agentbox.NotFound
	case errors.Is(err, fs.ErrPermission):
		code = agentbox.Invalid
	}
	if text := err.Error(); len(text) > maxComplaint {
		err = errors.New(text[:maxComplaint])
	}
	return agentbox.Errorf(code, "cannot %s %s in the box: %w", doing, name, err)
}

// validName checks that a name from the box can be a file name here: exactly one path element.
func validName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return agentbox.Errorf(agentbox.Corrupt, "the box reported a file named %q, which cannot exist", name)
	}
	return nil
}

// Bounds of what a lying server can describe.
const (
	maxDepth   = 500      // levels of directories
	maxListing = 32 << 20 // bytes of names on the wire, between one listing and the next: some 200,000 files
	maxGrowth  = 64 << 20 // bytes of a file beyond the size that was listed; those of /proc have none
)

func (f *Files) list(ctx context.Context, dir string) ([]fs.FileInfo, error) {
	if strings.Count(path.Clean(dir), "/") > maxDepth {
		return nil, agentbox.Errorf(agentbox.Corrupt, "the directories of the box are nested more than %d deep", maxDepth)
	}
	f.guard.begin()
	entries, err := f.sftp.ReadDirContext(ctx, dir)
	if err != nil {
		return nil, f.failure("list", dir, err)
	}
	for _, e := range entries {
		if err := errors.Join(validName(e.Name()), validSize(e)); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// validSize tells whether a file can have the size that the box reported: the protocol's numbers
// go beyond those of this machine.
func validSize(info fs.FileInfo) error {
	if info.Size() < 0 {
		return agentbox.Errorf(agentbox.Corrupt, "the box reported that %q has %d bytes, which cannot be", info.Name(), uint64(info.Size()))
	}
	return nil
}

// Progress is how far a copy has come.
type Progress struct {
	Path  string // the file just worked on, relative to what is copied
	Files int    // complete so far, directories and links included
	Bytes int64  // of contents so far
}

// CopyOptions are the options of a copy.
type CopyOptions struct {
	FollowLink bool                          // copy what the source's symbolic link points to, not the link
	Git        bool                          // out of the environment: git directories too, and into one here
	Progress   func(Progress)                // called often, from one goroutine at a time; may be nil
	Skipped    func(path string, why string) // sockets, devices, pipes and git directories are not copied; may be nil
}

// meter counts for a copy whose files go in parallel. mu guards now. It is also held while opts'
// functions are called, so that they run one at a time.
type meter struct {
	mu   sync.Mutex
	now  Progress
	opts CopyOptions
}

func (m *meter) add(name string, files int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Path = name
	m.now.Files += files
	m.now.Bytes += bytes
	if m.opts.Progress != nil {
		m.opts.Progress(m.now)
	}
}

// skip reports an entry that is not copied, and why.
func (m *meter) skip(name, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opts.Skipped != nil {
		m.opts.Skipped(name, why)
	}
}

// Why an entry is not copied. The mode follows the first.
const (
	special    = "it is neither a file, a directory nor a symbolic link: "
	gitSkipped = "git on this machine would act on what a box wrote there; --git copies it"
)

// guard ends an SFTP session whose server owes an answer and stays silent, or lists files without
// end, which the library would keep in memory. It is the stream between the SFTP client and the
// channel. The timer runs exactly while an answer is owed: each request has one. Whatever arrives
// starts it over, the next request does not. mu guards the fields below it.
type guard struct {
	io.ReadWriteCloser
	timer *time.Timer

	mu       sync.Mutex
	owed     bool    // the timer runs
	requests packets // that were sent
	answers  packets // that came
	listed   int64   // bytes of names that came since begin
	cause    error
}

// stallTime is how long an SFTP request may take; writing to a busy disk can be slow.
const stallTime = 2 * AnswerTimeout

// newGuard guards a stream; the first write starts its timer.
func newGuard(stream io.ReadWriteCloser) *guard {
	g := &guard{ReadWriteCloser: stream}
	g.timer = time.AfterFunc(stallTime, func() { g.fail(noAnswerError("answer a file request")) })
	g.timer.Stop()
	return g
}

// Read gives the server more time with whatever arrives: it shows that the session lives.
func (g *guard) Read(p []byte) (int, error) {
	n, err := g.ReadWriteCloser.Read(p)
	g.mu.Lock()
	g.listed += g.answers.names(p[:n])
	tooMany := g.listed > maxListing
	g.owed = err == nil && (g.requests.partial() || g.requests.whole > g.answers.whole)
	if g.owed {
		g.timer.Reset(stallTime)
	} else {
		g.timer.Stop()
	}
	g.mu.Unlock()
	if tooMany {
		g.fail(agentbox.Errorf(agentbox.Corrupt, "the box lists more files in one directory than can be: %d MiB of names", maxListing>>20))
	}
	return n, err
}

func (g *guard) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listed = 0
}

// packets follows the packets in a stream of SFTP: each is a length of four bytes, big-endian, then
// as many bytes, of which the first is the packet's type.
type packets struct {
	header [5]byte // with the type
	have   int     // bytes of header that came
	left   uint32  // bytes behind the header that are still to come
	whole  int64   // packets that came to their end
}

// namePacket is SSH_FXP_NAME, the answer with the files of a directory.
const namePacket = 104

// names counts the bytes of name packets in the next piece of the stream.
func (ps *packets) names(p []byte) (count int64) {
	for len(p) > 0 {
		if ps.have < len(ps.header) {
			got := copy(ps.header[ps.have:], p)
			if p, ps.have = p[got:], ps.have+got; ps.have < len(ps.header) {
				break
			}
			ps.left = max(binary.BigEndian.Uint32(ps.header[:]), 1) - 1
		}
		n := min(uint32(len(p)), ps.left)
		if p, ps.left = p[n:], ps.left-n; ps.header[4] == namePacket {
			count += int64(n)
		}
		if ps.left > 0 {
			break
		}
		ps.have = 0
		ps.whole++
	}
	return count
}

// partial tells whether a packet has begun and not come to its end.
func (ps *packets) partial() bool { return ps.have > 0 }

// Write starts the timer, unless an answer is owed already: a second request must not give the
// server more time for the first.
func (g *guard) Write(p []byte) (int, error) {
	g.mu.Lock()
	g.requests.names(p)
	if !g.owed {
		g.owed = true
		g.timer.Reset(stallTime)
	}
	g.mu.Unlock()
	return g.ReadWriteCloser.Write(p)
}

// fail ends the session. explain returns the first cause.
func (g *guard) fail(cause error) {
	g.mu.Lock()
	if g.cause == nil {
		g.cause = cause
	}
	g.mu.Unlock()
	g.ReadWriteCloser.Close()
}

// Close ends the session without a cause: its user is done.
func (g *guard) Close() error {
	g.timer.Stop()
	return g.ReadWriteCloser.Close()
}

// explain replaces the errors of a session that failed by its cause.
func (g *guard) explain(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case g.cause != nil:
		return g.cause
	case errors.Is(err, sftp.ErrSSHFxConnectionLost):
		return connectionLostError(err)
	}
	return err
}
