package e2e

import (
	"fmt"
	"maps"
	"strings"
)

// The operations of chaos. Each returns nil when there is no box for it.

func (c *chaos) repo() string { return c.repos[c.rand.IntN(len(c.repos))] }

// box returns the box of a random repository, "" if it has none.
func (c *chaos) box() (dir, id string) {
	dir = c.repo()
	out, err := c.run(dir, "show", "-q")
	if err != nil {
		return dir, ""
	}
	return dir, strings.TrimSpace(out)
}

func (c *chaos) up() *operation { return c.operation(c.repo(), "up", "up", "-q") }

// sync writes and syncs a line in the box. Only a line that was then reported as synced has to
// survive.
func (c *chaos) sync() *operation {
	dir, id := c.box()
	if id == "" {
		return nil
	}
	line, script := c.writeLine()
	op := c.operation(dir, "sync", "exec", "-n", id, "--", "sh", "-c", script)
	op.done = func(c *chaos, op *operation, _ error) { c.heard(id, line, op.out.String()) }
	return op
}

// writeLine returns a new line and the script that writes it.
func (c *chaos) writeLine() (line, script string) {
	c.lines++
	line = fmt.Sprintf("line-%d", c.lines)
	return line, "echo " + line + " >>journal && sync journal && echo synced"
}

// heard records a line that was reported as synced.
func (c *chaos) heard(id, line, out string) {
	if !strings.Contains(out, "synced") {
		return
	}
	if c.acked[id] == nil {
		c.acked[id] = map[string]bool{}
	}
	c.acked[id][line] = true
	c.synced++
}

func (c *chaos) on(what string, args ...string) *operation {
	dir, id := c.box()
	if id == "" {
		return nil
	}
	return c.operation(dir, what, append([]string{what, "-q", id}, args...)...)
}

func (c *chaos) pause() *operation  { return c.on("pause") }
func (c *chaos) resume() *operation { return c.on("resume") }
func (c *chaos) reset() *operation  { return c.on("reset") }

// fork copies a box, including its synced lines; the copy is checked and removed.
func (c *chaos) fork() *operation {
	dir, id := c.box()
	if id == "" {
		return nil
	}
	promised := maps.Clone(c.acked[id])
	op := c.operation(dir, "fork", "fork", "-q", id)
	op.done = func(c *chaos, op *operation, err error) {
		if child := strings.TrimSpace(op.out.String()); err == nil && child != "" {
			c.acked[child] = promised
			c.check(dir, child)
		}
		c.removeForks()
	}
	return op
}

// removeForks removes every box that is not the own one of a repository, including half-made ones.
func (c *chaos) removeForks() {
	own := map[string]bool{}
	for _, dir := range c.repos {
		if out, err := c.run(dir, "show", "-q"); err == nil {
			own[strings.TrimSpace(out)] = true
		}
	}
	out, err := c.run(c.repos[0], "ls", "-q")
	if err != nil {
		c.t.Errorf("ls: %v\n%s", err, out)
		return
	}
	for id := range strings.FieldsSeq(out) {
		if own[id] {
			continue
		}
		if out, err := c.run(c.repos[0], "rm", "--force", id); err != nil {
			c.t.Errorf("rm: %v\n%s", err, out)
		}
		delete(c.acked, id)
	}
}

func (c *chaos) checkpoint() *operation { return c.on("checkpoint") }

// rollback reverts the workspace on purpose, so lines that were synced after the checkpoint may be
// lost. Therefore it makes the checkpoint first: lines that were synced before must survive,
// whether or not the rollback happens.
func (c *chaos) rollback() *operation {
	dir, id := c.box()
	if id == "" {
		return nil
	}
	if _, err := c.run(dir, "checkpoint", id); err != nil {
		return nil // the box does not run
	}
	return c.operation(dir, "rollback", "rollback", "-q", id)
}

// remove removes a box. Afterwards it is gone, or it still exists and is complete.
func (c *chaos) remove() *operation {
	dir, id := c.box()
	if id == "" {
		return nil
	}
	op := c.operation(dir, "rm", "rm", "--force", "-q", id)
	op.done = func(c *chaos, _ *operation, err error) {
		out, lsErr := c.run(dir, "ls", "-q")
		if lsErr != nil {
			c.t.Errorf("ls: %v\n%s", lsErr, out)
		}
		if there := strings.Contains(out, id); there && err == nil {
			c.t.Errorf("box %s was removed and is still there", id)
		} else if !there {
			delete(c.acked, id)
		}
	}
	return op
}

// check compares the lines that the box reported as synced with those that it has, and syncs
// another one.
func (c *chaos) check(dir, id string) {
	line, script := c.writeLine()
	out, err := c.insist(dir, "exec", "-n", id, "--", "sh", "-c", "cat journal 2>/dev/null; "+script)
	if err != nil {
		c.t.Errorf("look into box %s: %v\n%s", id, err, out)
		return
	}
	has := map[string]bool{}
	for line := range strings.FieldsSeq(out) {
		has[line] = true
	}
	for line := range c.acked[id] {
		if !has[line] {
			c.t.Errorf("box %s has lost %s, which it had synced", id, line)
		}
	}
	c.heard(id, line, out)
}

func (c *chaos) checkAll() {
	for _, dir := range c.repos {
		if out, err := c.insist(dir, "up", "-q"); err != nil {
			c.t.Errorf("up at the end: %v\n%s", err, out)
		} else {
			c.check(dir, strings.TrimSpace(out))
		}
	}
}
