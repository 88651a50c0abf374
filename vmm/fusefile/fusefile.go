//go:build linux

// Package fusefile serves one read-only image as a FUSE file, to processes that open and map files
// and know nothing of blocks, as gVisor's do. It mounts nothing: who makes the namespaces does, as
// a file system whose root is the file itself, and passes on the descriptor of /dev/fuse. It keeps
// nothing: pages that were read stay in the kernel's cache, as those of any file.
package fusefile

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"agentbox/vmm"
)

// DevicePath is what gives a descriptor to mount with, in the user namespace in which it was
// opened, on a file, with the options fd, rootmode=100444 and, so that all users of the namespace
// may read, allow_other.
const DevicePath = "/dev/fuse"

// maxRead bounds one request: what the kernel reads ahead at most.
const maxRead = 128 << 10

// Server answers the kernel.
type Server struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Serve begins to answer for the file system that was mounted with device, which it takes over. It
// ends when the file system is gone, that is when no process of its namespace is left. When ctx
// ends, reads under way and later ones fail: until then they wait.
func Serve(ctx context.Context, device *os.File, image vmm.Blocks) (*Server, error) {
	ctx, cancel := context.WithCancel(ctx)
	// The library closes its descriptor itself, so it gets one of its own.
	fd, err := syscall.Dup(int(device.Fd()))
	if err != nil {
		cancel()
		return nil, os.NewSyscallError("dup", err)
	}
	f := &file{RawFileSystem: fuse.NewDefaultRawFileSystem(), ctx: ctx, image: image}
	server, err := fuse.NewServer(f, fmt.Sprintf("/dev/fd/%d", fd), &fuse.MountOptions{
		MaxWrite: maxRead, MaxReadAhead: maxRead, MaxBackground: 64, DisableXAttrs: true, Name: "agentbox", FsName: "image",
		Logger: log.New(io.Discard, "", 0), // it says what ends too late to be read
	})
	if err == nil {
		err = device.Close()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("serve the image as a file: %w", err)
	}
	s := &Server{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		server.Serve()
	}()
	return s, nil
}

// Cancel makes reads fail, so that processes that wait for bytes can end. Call it when they are
// being killed.
func (s *Server) Cancel() { s.cancel() }

// Wait returns when the file system is gone.
func (s *Server) Wait() { <-s.done }

// file is the only inode.
type file struct {
	fuse.RawFileSystem
	ctx   context.Context
	image vmm.Blocks
}

const unchanging = 24 * time.Hour // may the kernel believe what it was told

func (f *file) String() string { return "agentbox" }

func (f *file) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	size := uint64(f.image.Size())
	out.Attr = fuse.Attr{Ino: fuse.FUSE_ROOT_ID, Size: size, Blocks: (size + 511) / 512, Mode: syscall.S_IFREG | 0o444, Nlink: 1, Blksize: 4096}
	out.SetTimeout(unchanging)
	return fuse.OK
}

func (f *file) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if in.Flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		return fuse.EROFS
	}
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

// Read waits as long as it takes. A signal to who waits is no reason to give up: at the other end
// is a page fault, which can only be repeated or be the end of the process.
func (f *file) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	size := f.image.Size()
	if in.Offset >= uint64(size) {
		return fuse.ReadResultData(nil), fuse.OK
	}
	off := int64(in.Offset)
	buf = buf[:min(int64(len(buf)), size-off)]
	if err := f.image.ReadBlocks(f.ctx, buf, off); err != nil {
		return nil, fuse.EIO
	}
	return fuse.ReadResultData(buf), fuse.OK
}

func (f *file) Release(<-chan struct{}, *fuse.ReleaseIn) {}

func (f *file) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	out.Bsize, out.Frsize, out.NameLen = 4096, 4096, 255
	out.Blocks = uint64(f.image.Size()+4095) / 4096
	return fuse.OK
}
