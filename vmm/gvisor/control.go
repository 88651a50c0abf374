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

// control speaks to the sandbox: gVisor's own remote calls (package urpc), JSON both ways, files
// beside it. The names of methods and options are those of the very runsc that is embedded, so
// nothing here has to fit another version. The sandbox holds the guest's kernel and may be in the
// guest's hands: only a call's outcome is taken from it. Its methods may be called from any
// goroutine.
type control struct {
	mu     sync.Mutex // one call at a time
	conn   *net.UnixConn
	answer *io.LimitedReader // of conn: how much of an answer is still read
	dec    *json.Decoder     // of answer
	err    error             // of a call that was not answered: answers and calls are out of step from then on
}

// newControl takes over the connection that the launcher made; only root of the machine's user
// namespace could.
func newControl(conn *net.UnixConn) *control {
	limited := &io.LimitedReader{R: conn}
	return &control{conn: conn, answer: limited, dec: json.NewDecoder(limited)}
}

func (c *control) close() error { return c.conn.Close() }

// errControl marks errors of the connection, which mean that the sandbox has ended or hangs.
var errControl = errors.New("the sandbox does not answer")

// call makes one call and waits for its answer. limit bounds the wait besides ctx. An error that
// wraps errControl also ends all later calls, since an answer that comes after all would be taken
// for the next one's; any other is what the sandbox said. files go along as descriptors and stay
// the caller's.
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

// answer is what urpc sends back; the result itself is not read.
type answer struct {
	Success bool   `json:"success"`
	Err     string `json:"err"`
}

// exchange writes one call and reads one answer, without any limit of its own: call moves the
// deadline of the connection into the past when its context ends.
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

// How long the sandbox may take, on a busy host.
const (
	// Pausing and resuming touch no memory; writing a state is bounded by the disk.
	quickCall = 20 * time.Second
	slowCall  = 5 * time.Minute // memory is written
)

// checkpoint writes the machine's whole state and leaves it as it was. The pages are written
// uncompressed and into a file of their own, since a restore then reads them while the guest runs
// already; pages of zeros are left out.
func (c *control) checkpoint(ctx context.Context, kernel, meta, pages *os.File) error {
	options := map[string]any{
		"metadata": map[string]string{"compression": "none"}, "have_pages_file": true, "Resume": true,
		"app_mf_exclude_committed_zero_pages": true,
	}
	return c.call(ctx, slowCall, "Checkpoint", options, kernel, meta, pages)
}
