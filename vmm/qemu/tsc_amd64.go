package qemu

// readTSC reads the CPU's time stamp counter (tsc_amd64.s).
func readTSC() uint64
