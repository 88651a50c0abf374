//go:build linux

// Package fusefile serves one read-only image as a FUSE file, to processes that map a file and know
// nothing of blocks, as gVisor's do. It mounts nothing, and caches nothing. A gVisor machine uses
// it to start before its image is completely here; vmm/nbd does the same for QEMU.
//
// The launcher of a gVisor machine (vmm/gvisor/launch) mounts the file in the machine's own
// namespaces, as a file system whose root is the file itself. It passes the descriptor of /dev/fuse
// to the supervisor, which serves it. So the host sees no mount, and it is gone with the last
// process of the namespace. Pages stay in the kernel's page cache, like those of any file, so each
// block is read about once.
//
// The bytes come from vmm.Blocks, which has checked them.
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

// DevicePath is the device whose descriptor a mount needs. It has to be opened in the user
// namespace that mounts. The mount point is a file, and the options are fd, rootmode=100444 and
// allow_other, which lets all users of the namespace read.
const DevicePath = "/dev/fuse"

// maxRead is the most bytes of one request, and the most that the kernel reads ahead.
const maxRead = 128 << 10

// Server answers the kernel, for one mounted file. Its methods may be called from any goroutine.
type Server struct {
	cancel context.CancelFunc // of the context that ReadBlocks gets
	done   chan struct{}      // closed when the library has stopped serving
}

// Serve starts to answer for the file system that was mounted with device. It takes device over
// unless it fails. The server ends when the file system is gone, which is when no process of its
// namespace is left. Reads wait for missing blocks as long as it takes. When ctx ends, they and all
// later ones fail with EIO.
func Serve(ctx context.Context, device *os.File, image vmm.Blocks) (*Server, error) {
	ctx, cancel := context.WithCancel(ctx)
	// The library closes the descriptor that it gets.
	fd, err := syscall.Dup(int(device.Fd()))
	if err != nil {
		cancel()
		return nil, os.NewSyscallError("dup", err)
	}
	f := &file{RawFileSystem: fuse.NewDefaultRawFileSystem(), ctx: ctx, image: image}
	server, err := fuse.NewServer(f, fmt.Sprintf("/dev/fd/%d", fd), &fuse.MountOptions{
		MaxWrite: maxRead, MaxReadAhead: maxRead, MaxBackground: 64, DisableXAttrs: true, Name: "agentbox", FsName: "image",
		Logger: log.New(io.Discard, "", 0), // which only reports reads that ended too late
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

// Cancel makes reads fail. Call it when the processes that read are being killed: one that waits in
// a page fault would otherwise outlive SIGKILL until its block arrives.
func (s *Server) Cancel() { s.cancel() }

// Wait returns when the file system is gone and the descriptor of /dev/fuse is closed.
func (s *Server) Wait() { <-s.done }

// file is the only inode. The library refuses with ENOSYS what it does not implement.
type file struct {
	fuse.RawFileSystem
	ctx   context.Context
	image vmm.Blocks
}

// attrTimeout is for how long the kernel may cache attributes, which never change.
const attrTimeout = 24 * time.Hour

func (f *file) String() string { return "agentbox" }

// GetAttr describes a regular file that anybody may read. The size is that of the whole image from
// the start, since a process that maps the file must not see it grow.
func (f *file) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	size := uint64(f.image.Size())
	out.Attr = fuse.Attr{Ino: fuse.FUSE_ROOT_ID, Size: size, Blocks: (size + 511) / 512, Mode: syscall.S_IFREG | 0o444, Nlink: 1, Blksize: 4096}
	out.SetTimeout(attrTimeout)
	return fuse.OK
}

// Open keeps the page cache of the file. By default each open drops the pages of a FUSE file, and
// every process of the sandbox would read the image again.
func (f *file) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if in.Flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		return fuse.EROFS
	}
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

// Read waits as long as it takes. It ignores the channel that tells of an interrupt: the reader is
// in a page fault, which can only be repeated or end the process. A read across the end of the
// image is short, as with any file.
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

// Release does nothing, as an open file has no state here.
func (f *file) Release(<-chan struct{}, *fuse.ReleaseIn) {}

// StatFs describes a full file system.
func (f *file) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	out.Bsize, out.Frsize, out.NameLen = 4096, 4096, 255
	out.Blocks = uint64(f.image.Size()+4095) / 4096
	return fuse.OK
}
