//go:build linux

// Package fusefile serves one read-only image as a FUSE file, to processes that open and map files
// and know nothing of blocks, as gVisor's do. It is how a gVisor machine starts before its image is
// all here; vmm/nbd does the same for QEMU.
//
// It mounts nothing. The launcher of a gVisor machine (vmm/gvisor/launch) does that inside of the
// machine's own namespaces, as a file system whose root is the file itself, and passes the
// descriptor of /dev/fuse back to the supervisor, which serves it. So no mount shows on the host,
// and the last process of the namespace takes it along. The package keeps nothing: pages that were
// read stay in the kernel's page cache, as those of any file, so each block is asked for about
// once.
//
// The image's bytes are believed as they come from vmm.Blocks, which has checked them.
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

// DevicePath is the device to open for a descriptor to mount with. It has to be opened in the user
// namespace in which it is mounted. The mount is on a file and has the options fd, rootmode=100444
// and, so that all users of the namespace may read, allow_other.
const DevicePath = "/dev/fuse"

// maxRead bounds one request in bytes: it is the most that the kernel reads ahead.
const maxRead = 128 << 10

// Server answers the kernel, for one mounted file. Its methods may be called from any goroutine.
type Server struct {
	// Ends the context that ReadBlocks is called with.
	cancel context.CancelFunc
	// Closed when the library has stopped serving.
	done chan struct{}
}

// Serve begins to answer for the file system that was mounted with device, which it takes over
// unless it fails. It ends when the file system is gone, that is when no process of its namespace
// is left. Reads wait for blocks that are not here for as long as that takes; when ctx ends, those
// under way and later ones fail with EIO.
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
// being killed. Without it a process in an uninterruptible page fault would outlive SIGKILL until
// its block arrived.
func (s *Server) Cancel() { s.cancel() }

// Wait returns when the file system is gone and the descriptor of /dev/fuse is closed.
func (s *Server) Wait() { <-s.done }

// file is the only inode. What it does not implement, the library's default refuses with ENOSYS.
type file struct {
	fuse.RawFileSystem
	ctx   context.Context
	image vmm.Blocks
}

// unchanging is for how long the kernel may believe attributes without asking again. The image
// never changes, so any long time will do; a guest's every stat would otherwise wait for us.
const unchanging = 24 * time.Hour

func (f *file) String() string { return "agentbox" }

// GetAttr describes a regular file that anybody may read. Its size is that of the whole image, from
// the start: a process that maps it must not see it grow.
func (f *file) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	size := uint64(f.image.Size())
	out.Attr = fuse.Attr{Ino: fuse.FUSE_ROOT_ID, Size: size, Blocks: (size + 511) / 512, Mode: syscall.S_IFREG | 0o444, Nlink: 1, Blksize: 4096}
	out.SetTimeout(unchanging)
	return fuse.OK
}

// Open keeps the kernel's cache of the file across opens: by default a FUSE file's pages are
// dropped at each, and every process of the sandbox would read the image anew.
func (f *file) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if in.Flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		return fuse.EROFS
	}
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

// Read waits as long as it takes, and so ignores the channel that tells of an interrupt: at the
// other end is a page fault, which can only be repeated or be the end of the process. A read across
// the end of the image is short, as with any file.
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

// Release has nothing to give back: an open file has no state here.
func (f *file) Release(<-chan struct{}, *fuse.ReleaseIn) {}

// StatFs describes a file system that the image fills to the last block.
func (f *file) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	out.Bsize, out.Frsize, out.NameLen = 4096, 4096, 255
	out.Blocks = uint64(f.image.Size()+4095) / 4096
	return fuse.OK
}
