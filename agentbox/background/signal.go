package background

// Signal wakes a goroutine that receives from it. Several notifications that come before it receives
// are one.
type Signal chan struct{}

// NewSignal makes a Signal without a notification.
func NewSignal() Signal { return make(Signal, 1) }

// Notify wakes the receiver, now or when it next receives. It does not block.
func (s Signal) Notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}
