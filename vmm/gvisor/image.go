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

// ReadsBlocks implements vmm.BlockReader: gVisor maps its image, so the image has to be a file,
// which FUSE makes of blocks. So it asks whether /dev/fuse can be opened here. Without it a box
// waits until its image is all here.
func (d *Driver) ReadsBlocks() error {
	return opens(fusefile.DevicePath)
}

// opens tells why a device of FUSE cannot be opened, and what changes that, in one line.
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

// serveImage begins to answer for the image with the descriptor that the launcher mounted and sent
// along. It goes on until the machine's end, whatever becomes of ctx: runsc reads the
// image before the machine has started.
func (m *machine) serveImage(ctx context.Context, fds []int) (err error) {
	if len(fds) != 1 {
		closeDescriptors(fds)
		return errors.New("the launcher mounted the image and gave no descriptor")
	}
	m.image, err = fusefile.Serve(context.WithoutCancel(ctx), os.NewFile(uintptr(fds[0]), fusefile.DevicePath), m.spec.Blocks)
	return err
}

// cancelImage lets processes end that wait for bytes of the image. They are dying, so they will not
// see that reading failed.
func (m *machine) cancelImage() {
	if m.image != nil {
		m.image.Cancel()
	}
}
