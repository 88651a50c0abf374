package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"agentbox/vmm/fusefile"
)

// ReadsBlocks implements vmm.BlockReader. gVisor maps its image, which has to be a file, so blocks
// need /dev/fuse. Without it a box waits until its image is completely here.
func (d *Driver) ReadsBlocks() error {
	return opens(fusefile.DevicePath)
}

// opens returns why a FUSE device cannot be opened, with what to do about it, in one line.
func opens(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; on Debian and Ubuntu every user may open it: sudo chmod 666 %s", err, device)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w; the kernel has no FUSE yet: sudo modprobe fuse", err)
	}
	return err
}

// serveImage starts to serve the image with the descriptor that the launcher has mounted. It goes
// on until the end of the machine, also when ctx ends.
func (m *machine) serveImage(ctx context.Context, fds []int) (err error) {
	if len(fds) != 1 {
		closeDescriptors(fds)
		return errors.New("the launcher mounted the image and gave no descriptor")
	}
	m.image, err = fusefile.Serve(context.WithoutCancel(ctx), os.NewFile(uintptr(fds[0]), fusefile.DevicePath), m.spec.Blocks)
	return err
}

// cancelImage lets dying processes end that wait for blocks of the image.
func (m *machine) cancelImage() {
	if m.image != nil {
		m.image.Cancel()
	}
}
