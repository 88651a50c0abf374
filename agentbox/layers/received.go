package layers

import (
	"sync"

	"agentbox/vmm/image"
)

// receivedBytes adds up from whom the chunks of an image came, in bytes of the image. Its methods
// may be called at once; nil counts nothing.
type receivedBytes struct {
	mu   sync.Mutex
	list []image.Received
}

// add counts n bytes of the image, which may be fewer when they travel.
func (r *receivedBytes) add(from image.Received, n int64) {
	if r == nil {
		return
	}
	from.Bytes = n
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = image.AddReceived(r.list, from)
}

// Received returns from whom bytes of the image have come since it was opened. The slice is the
// caller's, one entry for each peer or remote.
func (l *LazyImage) Received() []image.Received {
	l.received.mu.Lock()
	defer l.received.mu.Unlock()
	return append([]image.Received{}, l.received.list...)
}
