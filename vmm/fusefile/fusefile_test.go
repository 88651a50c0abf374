//go:build linux

package fusefile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentbox/tools/suites/vmmtest"
	"agentbox/vmm"
)

// envMount makes the test binary the process that mounts and reads: it says on which file. One
// process cannot do both ends: a read that waits could not be killed with the one who answers it.
const envMount = "AGENTBOX_TEST_MOUNT"

func TestMain(m *testing.M) {
	if target := os.Getenv(envMount); target != "" {
		if err := far(target, 3); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// order asks the far end to read, or to look at all of the file through a mapping.
type order struct {
	ID     int
	Off    int64
	N      int
	Mapped bool
}

type outcome struct {
	ID    int
	Bytes []byte
	Error string
}

// far does what gVisor's launcher does, in namespaces of its own: it mounts and sends the device.
// Then it reads what it is told to.
func far(target string, socket int) error {
	device, err := syscall.Open(DevicePath, syscall.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", DevicePath, err)
	}
	data := fmt.Sprintf("fd=%d,rootmode=100444,user_id=0,group_id=0,allow_other", device)
	if err := syscall.Mount("image", target, "fuse", syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, data); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	err = syscall.Sendmsg(socket, []byte{0}, syscall.UnixRights(device), nil, 0)
	if err = errors.Join(err, syscall.Close(device)); err != nil {
		return err
	}
	file, err := os.Open(target)
	if err != nil {
		return err
	}
	conn := os.NewFile(uintptr(socket), "socket")
	in, out := gob.NewDecoder(bufio.NewReader(conn)), gob.NewEncoder(conn)
	var sending sync.Mutex
	for {
		var o order
		if in.Decode(&o) != nil {
			return nil // nobody wants anything any more
		}
		go func() {
			b, err := o.obey(file)
			done := outcome{ID: o.ID, Bytes: b}
			if err != nil {
				done.Error = err.Error()
			}
			sending.Lock()
			defer sending.Unlock()
			_ = out.Encode(done) // the other end may be gone
		}()
	}
}

func (o order) obey(file *os.File) ([]byte, error) {
	if !o.Mapped {
		b := make([]byte, o.N)
		_, err := file.ReadAt(b, o.Off)
		return b, err
	}
	info, err := file.Stat()
	if err == nil && (info.Mode() != 0o444 || info.Size() != int64(o.N)) {
		err = fmt.Errorf("a file of mode %v and %d bytes", info.Mode(), info.Size())
	}
	if err != nil {
		return nil, err
	}
	mapped, err := unix.Mmap(int(file.Fd()), 0, o.N, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(mapped), unix.Munmap(mapped)
}

// reader is the near end of far.
type reader struct {
	conn *net.UnixConn

	mu      sync.Mutex
	out     *gob.Encoder
	last    int
	waiting map[int]chan outcome
}

// mounted serves an image to another process.
func mounted(t *testing.T, ctx context.Context, image vmm.Blocks) *reader {
	t.Helper()
	r := &reader{waiting: map[int]chan outcome{}}
	theirs := r.pair(t)
	target := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.ExtraFiles, cmd.Stderr = append(os.Environ(), envMount+"="+target), []*os.File{theirs}, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if err := errors.Join(cmd.Start(), theirs.Close()); err != nil {
		t.Skipf("no user namespaces here: %v", err)
	}
	device, err := receive(r.conn)
	if err != nil {
		_ = cmd.Wait() // it said why
		t.Skipf("FUSE cannot be mounted in a user namespace here: %s", said.String())
	}
	server, err := Serve(ctx, device, image)
	if err != nil {
		t.Fatal(errors.Join(err, cmd.Process.Kill()))
	}
	go r.pump()
	t.Cleanup(func() {
		server.Cancel() // whoever waits fails, so that the process can end
		r.conn.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, said.String())
		}
		server.Wait() // nobody is left in the namespace
	})
	return r
}

// pair makes the socket, and gives the far end of it.
func (r *reader) pair(t *testing.T) *os.File {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(fds[0]), "ours")
	conn, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		t.Fatal(err)
	}
	r.conn = conn.(*net.UnixConn)
	r.out = gob.NewEncoder(r.conn)
	return os.NewFile(uintptr(fds[1]), "theirs")
}

// receive takes the device from a socket.
func receive(conn *net.UnixConn) (*os.File, error) {
	oob := make([]byte, 64)
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("no descriptor came")
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), DevicePath), nil
}

func (r *reader) pump() {
	in := gob.NewDecoder(r.conn)
	for {
		var o outcome
		err := in.Decode(&o)
		r.mu.Lock()
		if err != nil {
			for _, c := range r.waiting {
				c <- outcome{Error: err.Error()}
			}
			r.mu.Unlock()
			return
		}
		r.waiting[o.ID] <- o
		delete(r.waiting, o.ID)
		r.mu.Unlock()
	}
}

func (r *reader) do(o order) ([]byte, error) {
	done := make(chan outcome, 1)
	r.mu.Lock()
	r.last++
	o.ID = r.last
	r.waiting[o.ID] = done
	err := r.out.Encode(o)
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	got := <-done
	if got.Error != "" {
		return nil, errors.New(got.Error)
	}
	return got.Bytes, nil
}

func TestConformance(t *testing.T) {
	vmmtest.TestBlocks(t, func(t *testing.T, ctx context.Context, image vmm.Blocks) vmmtest.ReadBlocks {
		r := mounted(t, ctx, image)
		return func(p []byte, off int64) error {
			b, err := r.do(order{Off: off, N: len(p)})
			copy(p, b)
			return err
		}
	})
}

// text is an image that is all here.
type text []byte

func (t text) Size() int64 { return int64(len(t)) }
func (t text) ReadBlocks(_ context.Context, p []byte, off int64) error {
	copy(p, t[off:])
	return nil
}

// gVisor maps its image.
func TestAMapping(t *testing.T) {
	image := text(bytes.Repeat([]byte("mapped "), 100_000))
	b, err := mounted(t, t.Context(), image).do(order{N: len(image), Mapped: true})
	if err != nil || !bytes.Equal(b, image) {
		t.Errorf("other bytes, %v", err)
	}
}
