package qemu

import (
	"context"
	"log/slog"
	"net"

	"agentbox/vmm/nbd"
)

// ReadsBlocks implements vmm.BlockReader: every QEMU that we start speaks NBD.
func (d *Driver) ReadsBlocks() error { return nil }

// serveImage answers QEMU's reads of the image until the machine has ended; watch waits for its
// goroutines. The server closes conn. An error is only logged, since the machine sees it as one of
// its disk.
func (m *machine) serveImage(conn net.Conn, log *slog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	m.serving.Go(func() {
		<-m.proc.Done()
		cancel() // reads that wait for bytes have nobody to wait for
	})
	m.serving.Go(func() {
		if err := nbd.Serve(ctx, conn, m.spec.Blocks); err != nil && ctx.Err() == nil {
			log.Error("serving the image to QEMU", "machine", m.spec.Name, "error", err)
		}
	})
}
