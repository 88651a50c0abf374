package supervisor

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// oomScore is the oom_score_adj of a supervisor: thousandths of the memory by which Linux considers
// it larger when it chooses what to kill. A box's workspace survives that, unlike what is unsaved
// in a user's editor or browser. So of ten boxes of a gigabyte one is killed, and not the browser,
// which is larger than each of them.
const oomScore = 500

// raiseOOMScore makes Linux kill this process, and with it the machine that it starts, before
// others when memory runs out. proc is where that file system is mounted. A score that is higher
// already stays.
func raiseOOMScore(proc string) error {
	path := filepath.Join(proc, "self", "oom_score_adj")
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if now, err := strconv.Atoi(string(bytes.TrimSpace(b))); err != nil || now >= oomScore {
		return err
	}
	return os.WriteFile(path, []byte(strconv.Itoa(oomScore)), 0)
}
