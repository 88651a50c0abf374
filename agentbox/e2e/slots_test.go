package e2e

import (
	"agentbox/agentbox/resources"
)

// slots bounds how many scripts run at once.
type slots chan struct{}

func (s slots) take() { s <- struct{}{} }
func (s slots) give() { <-s }

// without does what only waits, and lets another script run meanwhile.
func (s slots) without(wait func()) {
	s.give()
	defer s.take()
	wait()
}

// memoryOfScript is what a script's boxes, its daemon and what it builds take, in bytes: 2 GiB, which
// few need.
const memoryOfScript = 2 << 30

// rooms gives slots for five scripts on each four CPUs, if memory carries them: a machine is emulated
// where there is no hardware for it, and what makes an image waits for a mirror and a disk. Scripts
// that wait have slots of their own, half as many.
func rooms() (working, waiting slots, err error) {
	here, err := resources.Measure()
	if err != nil {
		return nil, nil, err
	}
	n := max(1, min(here.CPUs*5/4, int(here.Available/memoryOfScript)))
	return make(slots, n), make(slots, max(1, n/2)), nil
}
