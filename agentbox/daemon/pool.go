package daemon

import (
	"os"
	"strconv"

	"agentbox/agentbox"
)

// poolEnv sets the pool's size for tests and benchmarks, which need none or a fixed number.
const poolEnv = "AGENTBOX_POOL"

// PoolFromEnv returns the size that $AGENTBOX_POOL asks for, 0 to 64, or -1 to choose a size for
// this machine. Any other value is Invalid.
func PoolFromEnv() (int, error) {
	s := os.Getenv(poolEnv)
	if s == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 64 {
		return 0, agentbox.Errorf(agentbox.Invalid, "%s=%q is not a number of machines (0 to 64)", poolEnv, s)
	}
	return n, nil
}
