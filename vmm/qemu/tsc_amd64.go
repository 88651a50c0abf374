package qemu

// readTSC reads the CPU's time stamp counter.
func readTSC() uint64
