package qemu

import (
	"fmt"
	"time"
)

// An emulated CPU's time stamp counter runs at the host's rate, and the guest's kernel must know
// that rate to keep time. Left alone it measures the rate against an emulated timer chip, which
// fails on a busy host, and then hangs for ever. So we measure it, against a good clock, and tell.

// tscMeasurement delays a cold boot only. 20 ms is enough for the rate in kHz.
const tscMeasurement = 20 * time.Millisecond

// tscArgs is the kernel argument for the rate, after a space. It is not part of the fingerprint:
// measurements differ in the last digits, and only a boot reads it.
func tscArgs(accel string) string {
	if accel != accelTCG {
		return "" // KVM has a clock of its own
	}
	began, first := tscSample()
	time.Sleep(tscMeasurement)
	ended, last := tscSample()
	if last <= first {
		return ""
	}
	khz := float64(last-first) / float64(ended.Sub(began).Nanoseconds()) * 1e6
	return fmt.Sprintf(" tsc_early_khz=%d", int64(khz+0.5))
}

// tscSample reads clock and counter at about the same moment: the fastest of ten attempts, since
// this thread may be interrupted between the two.
func tscSample() (at time.Time, count uint64) {
	best := time.Hour
	for range 10 {
		before := time.Now()
		c := readTSC()
		if took := time.Since(before); took < best {
			best, at, count = took, before.Add(took/2), c
		}
	}
	return at, count
}
