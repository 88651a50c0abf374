package background

// Signal tells a goroutine, which receives from it, that something happened. What is given several
// times before it is taken is taken once.
type Signal chan struct{}

// NewSignal makes one that was not given.
func NewSignal() Signal { return make(Signal, 1) }

// Give does not wait.
func (s Signal) Give() {
	select {
	case s <- struct{}{}:
	default:
	}
}
