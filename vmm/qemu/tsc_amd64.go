package qemu

func readTSC() uint64
