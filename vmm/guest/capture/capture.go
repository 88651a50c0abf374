//go:build linux

package capture

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentbox/agentbox/git/index"
)

// Name is the program name under which the guest agent does this. The first argument is a command that
// does the same.
const Name = "agentbox-capture"

// errOther is why something is left to the script.
var errOther = errors.New("this is left to the script")

// other is errOther for a reason, which a test reads.
func other(why string) error { return fmt.Errorf("%w: %s", errOther, why) }

// Serve is the program: it works in its directory, as the script's environment asks for it. The
// arguments are the command that does the same, which it becomes if this is not for it.
func Serve() error {
	err := Run(os.Stdin, os.Stdout, os.Getenv)
	if !errors.Is(err, errOther) || len(os.Args) < 2 {
		return err
	}
	program, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = syscall.Exec(program, os.Args[1:], os.Environ())
	}
	return err
}

// capture is one run. It is used once, but read hashes files in several goroutines.
type capture struct {
	root, git, temp string
	asked           func(string) string // the script's environment

	index     *index.Index
	indexTime int64             // when it was written, in seconds
	files     map[string]*file  // regular files and links of the work tree, without .git
	converts  bool              // git would convert a file that has a carriage return
	minimal   bool              // git compares sizes and times only
	ctime     bool              // git compares when files changed, too
	head      commit            // that is checked out
	ref       string            // HEAD, or the branch that is checked out
	staged    []byte            // of git diff-index
	was       map[string]*entry // what HEAD has in place of what is staged; nil for nothing
	now       []entry           // what the work tree is, sorted
	changes   []change          // from HEAD to that, sorted
	before    string            // what was checked out before, and a line end
	named     []named
	made      []object // what HEAD lacks
	nowTree   id       // of now
	below     int      // how many of made that has
	held      held
}

// Run captures the workspace in the current directory. asked is the environment, as the script has it;
// in has the host's answer. With an error that is errOther nothing was written.
func Run(in io.Reader, out io.Writer, asked func(string) string) (err error) {
	c := &capture{asked: asked, held: held{left: roomToHold(), all: map[id][]byte{}}}
	if c.root, err = os.Getwd(); err == nil {
		c.root, err = filepath.EvalSymlinks(c.root)
	}
	if c.temp, err = os.MkdirTemp("", "agentbox-"); err != nil {
		return other(err.Error())
	}
	defer os.RemoveAll(c.temp)
	hungUp := make(chan os.Signal, 1)
	defer close(hungUp)
	signal.Notify(hungUp, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(hungUp)
	go func() {
		if _, open := <-hungUp; open {
			os.RemoveAll(c.temp)
			os.Exit(1)
		}
	}()
	said, err := c.describe()
	if err != nil {
		return err
	}
	if _, err := out.Write(said); err != nil {
		return err
	}
	return c.answer(in, out)
}

// describe looks at everything, and returns the lines of facts.
func (c *capture) describe() ([]byte, error) {
	c.git = filepath.Join(c.root, ".git")
	if err := errors.Join(c.checkGitDir(), c.prepareObjects()); err != nil {
		return nil, err
	}
	untracked, err := c.ask()
	if err == nil {
		err = c.compare(untracked)
	}
	if err != nil {
		return nil, err
	}
	tree, err := c.trees(c.now, c.dirty())
	if err != nil {
		return nil, err
	}
	c.nowTree, c.below = tree, len(c.made)
	top := c.head.id
	if tree != c.head.tree {
		date := c.head.date // the same for the same workspace
		if c.asked("SAME") == "" {
			date = strconv.FormatInt(time.Now().Unix(), 10) + " +0000"
		}
		if top, err = c.commit(tree, c.head.id, date, "Uncommitted work of "+c.asked("ID")); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "format sha1\nfiles %s\ntree %s %s %d %s .\n", tree, top, c.head.id, min(len(c.changes), 1_000_000), c.ref)
	if c.asked("LIST") != "" {
		err = c.list(&out)
	}
	if err == nil && c.asked("REST") != "" {
		err = c.rest(&out)
	}
	if err == nil {
		err = c.refs(&out, top)
	}
	out.WriteString("ready\n")
	return out.Bytes(), err
}

// prepareObjects makes the directory for new objects, which sees those of the repository.
func (c *capture) prepareObjects() error {
	info := filepath.Join(c.temp, "objects", "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return other(err.Error())
	}
	if err := os.WriteFile(filepath.Join(info, "alternates"), []byte(filepath.Join(c.git, "objects")+"\n"), 0o600); err != nil {
		return other(err.Error())
	}
	return nil
}

// list writes the changes. Paths that git would quote are left to the script.
func (c *capture) list(out *bytes.Buffer) error {
	for _, d := range c.changes[:min(len(c.changes), 200_000)] {
		if strings.ContainsFunc(d.path, func(r rune) bool { return r < ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
			return other("the name of a file")
		}
		fmt.Fprintf(out, "change %06o %s %s\n", d.mode, d.id, d.path)
	}
	return nil
}

// fewFaults has the C library keep what is freed: gVisor spends most of the time of git pack-objects on
// giving memory and taking it back. The delta of a file is to its last version, beside which git sorts it.
var fewFaults = []string{"MALLOC_MMAP_THRESHOLD_=268435456", "MALLOC_TRIM_THRESHOLD_=536870912", "MALLOC_TOP_PAD_=67108864"}

// answer reads what the host wants, and sends it.
func (c *capture) answer(in io.Reader, out io.Writer) error {
	var tips, has []string
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "^"); ok {
			has = append(has, id)
		} else {
			tips = append(tips, lines.Text())
		}
	}
	if err := lines.Err(); err != nil || len(tips) == 0 {
		return err
	}
	if c.packs(tips, has) {
		if slices.Contains(has, c.nowTree.String()) {
			c.made = c.made[c.below:]
		}
		if deltas, ok := c.deltas(); ok {
			_, err := io.WriteString(out, "pack\n")
			return errors.Join(err, c.writePack(out, deltas))
		}
	}
	return c.packByGit(tips, has, out)
}

// packByGit has git send what the host wants and the host lacks.
func (c *capture) packByGit(tips, has []string, out io.Writer) error {
	for _, content := range c.held.all {
		if _, err := c.write("blob", int64(len(content)), bytes.NewReader(content)); err != nil {
			return err
		}
	}
	there, err := c.run(strings.NewReader(strings.Join(has, "^{commit}\n")+"^{commit}\n"), "cat-file", "--batch-check=^%(objectname)")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(there)) {
		if !strings.Contains(line, " ") { // else it is missing
			tips = append(tips, strings.TrimSuffix(line, "\n"))
		}
	}
	if _, err := io.WriteString(out, "pack\n"); err != nil {
		return err
	}
	pack := c.command("pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q", "--window=2", "--compression=1", "--threads=1")
	pack.Env = append(pack.Env, fewFaults...)
	pack.Stdin, pack.Stdout = strings.NewReader(strings.Join(tips, "\n")+"\n"), out
	return pack.Run()
}

// number is the one in a variable of the environment.
func (c *capture) number(name string, otherwise int) int {
	if n, err := strconv.Atoi(c.asked(name)); err == nil {
		return n
	}
	return otherwise
}
