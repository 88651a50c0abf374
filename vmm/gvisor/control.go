package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// control makes gVisor's remote calls (package urpc) to the sandbox: JSON in both directions, with
// descriptors beside it. Methods and options are those of the embedded runsc, so no other version
// matters. A guest may have taken over the sandbox, so only the outcome of a call is used. The
// methods may be called from any goroutine.
type control struct {
	mu     sync.Mutex // one call at a time
	conn   *net.UnixConn
	answer *io.LimitedReader // of conn: how much of an answer is still read
	dec    *json.Decoder     // of answer
	err    error             // of a call that was not answered: answers and calls are out of step from then on
}

// newControl takes over the connection that the launcher made. Only root of the machine's user
// namespace may connect.
func newControl(conn *net.UnixConn) *control {
	limited := &io.LimitedReader{R: conn}
	return &control{conn: conn, answer: limited, dec: json.NewDecoder(limited)}
}

func (c *control) close() error { return c.conn.Close() }

// errControl means that the sandbox has ended or hangs.
var errControl = errors.New("the sandbox does not answer")

// call makes one call and waits for its answer, at most for limit. If there is no answer, the error
// wraps errControl, and all later calls fail with it, since a late answer would be taken for
// theirs. Any other error is what the sandbox said. files are sent as descriptors and stay the
// caller's.
func (c *control) call(ctx context.Context, limit time.Duration, method string, arg any, files ...*os.File) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	c.conn.SetDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { c.conn.SetDeadline(time.Unix(1, 0)) })
	answer, err := c.exchange(method, arg, files)
	stop()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		c.err = fmt.Errorf("%w: %s: %w", errControl, method, err)
		return c.err
	}
	if !answer.Success {
		return fmt.Errorf("%s: %s", method, answer.Err)
	}
	return nil
}

// maxAnswer bounds an answer, in bytes: one that never ends would fill our memory.
const maxAnswer = 1 << 20

// answer is an answer of urpc without its result.
type answer struct {
	Success bool   `json:"success"`
	Err     string `json:"err"`
}

// exchange writes a call and reads its answer. It has no time limit: when the context of call ends,
// the connection gets a deadline in the past.
func (c *control) exchange(method string, arg any, files []*os.File) (answer, error) {
	var a answer
	message, err := json.Marshal(map[string]any{"method": "containerManager." + method, "arg": arg})
	if err != nil {
		return a, err
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, 0, len(files))
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := c.conn.WriteMsgUnix(message, rights, nil); err != nil {
		return a, err
	}
	c.answer.N = maxAnswer
	return a, c.dec.Decode(&a)
}

// How long the sandbox may take on a busy host.
const (
	quickCall = 20 * time.Second // to pause and resume, which touch no memory
	slowCall  = 5 * time.Minute  // to write its memory to a disk
)

// checkpoint writes the whole state of the machine, which stays as it was. Pages are uncompressed
// and in a file of their own, so that a restore can read them while the guest runs already. Pages
// of zeros are left out.
func (c *control) checkpoint(ctx context.Context, kernel, meta, pages *os.File) error {
	options := map[string]any{
		"metadata": map[string]string{"compression": "none"}, "have_pages_file": true, "Resume": true,
		"app_mf_exclude_committed_zero_pages": true,
	}
	return c.call(ctx, slowCall, "Checkpoint", options, kernel, meta, pages)
}
