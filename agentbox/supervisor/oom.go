package supervisor

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// expendable is what a supervisor adds to the thousandths of the memory by which Linux chooses what
// it ends when memory runs out. A box's workspace outlives that, and a user's editor or browser has
// nothing that does: so that of ten boxes of a gigabyte one goes, and not the browser, which has
// more than each of them.
const expendable = 500

// giveWay makes this process, and with it the machine that it starts, one that Linux ends before
// others. proc is where that file system is mounted. One that is more expendable already stays so.
func giveWay(proc string) error {
	path := filepath.Join(proc, "self", "oom_score_adj")
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if now, err := strconv.Atoi(string(bytes.TrimSpace(b))); err != nil || now >= expendable {
		return err
	}
	return os.WriteFile(path, []byte(strconv.Itoa(expendable)), 0)
}
