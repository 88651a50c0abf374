package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/bench"
)

// What the page of the lab shows.
const (
	pageBoxes, pageTasks = 200, 5000
	pageLimit            = 30 * time.Second
)

// pageVerb is `lab page`.
func pageVerb(out io.Writer) *cli.Command {
	return verb("page", "measure the page of agentbox ui in a real Chromium, with 200 boxes and 5,000 tasks",
		"page/paint lasts from the beginning of a load until the browser has painted something, page/list until the boxes and tasks are there.\n"+
			"Needs chromium. Let nothing else run meanwhile.", 20, out, func(ctx context.Context, r *bench.Run) error {
			return r.InLab(ctx, r.Isolation, func(lab *bench.Lab) error {
				p := &pageLab{installation: lab.Plain}
				all := sharing(p.open, nil, bench.Scenario{Name: "page/paint", Measure: p.paint}, bench.Scenario{Name: "page/list", Measure: p.list})
				return errors.Join(r.Measure(ctx, bench.InBoxes(agentbox.Box{}, pageLimit, all...)), p.close(ctx))
			})
		})
}

// pageLab is a home with many boxes and tasks, of which one each is real and the others are its copies;
// the page; and a browser that has logged in.
type pageLab struct {
	installation *bench.Installation
	ui           *exec.Cmd
	address      string
	browser      *browser
	copies       []string
}

// open makes everything, once for both scenarios.
func (p *pageLab) open(ctx context.Context) (err error) {
	if p.browser != nil {
		return nil
	}
	if err := p.fill(ctx); err != nil {
		return err
	}
	p.ui = exec.CommandContext(ctx, p.installation.Program.Path, "--quiet", "ui")
	p.ui.Env = append(os.Environ(), p.installation.Program.Env...)
	out, err := p.ui.StdoutPipe()
	if err == nil {
		err = p.ui.Start()
	}
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("agentbox ui prints no address: %w", err)
	}
	login := strings.TrimSpace(line)
	p.address, _, _ = strings.Cut(login, "#")
	if p.browser, err = startBrowser(ctx); err != nil {
		return err
	}
	_, _, err = p.browser.load(ctx, login)
	return err
}

// fill makes a box and a task, and copies their records while no daemon runs.
func (p *pageLab) fill(ctx context.Context) error {
	i := p.installation
	repo, err := i.Lab.Repo(ctx, "page", bench.SmallRepository)
	if err != nil {
		return err
	}
	if _, _, err := i.Program.Run(ctx, repo, i.Up("one", "--detach")...); err != nil {
		return err
	}
	if _, _, err := i.Program.Run(ctx, repo, append([]string{"task", "submit", "-q", "--wait"}, append(i.Lab.Flags, "--", "sh", "-c", changes)...)...); err != nil {
		return err
	}
	if _, err := i.Do(ctx, repo, "daemon", "stop"); err != nil {
		return err
	}
	return errors.Join(p.multiply(i.Home.Boxes(), "", 6, pageBoxes), p.multiply(i.Home.Tasks(), "t-", 4, pageTasks))
}

// multiply makes n of the first record in a directory, whose names have so many random bytes.
func (p *pageLab) multiply(dir, prefix string, bytesOfID, n int) error {
	all, err := os.ReadDir(dir)
	if err != nil || len(all) == 0 {
		return fmt.Errorf("nothing in %s to copy: %w", dir, err)
	}
	from := all[0].Name()
	for range n - len(all) {
		id := make([]byte, bytesOfID)
		rand.Read(id)
		to := prefix + hex.EncodeToString(id)
		p.copies = append(p.copies, filepath.Join(dir, to))
		if err := copyRecords(filepath.Join(dir, to), filepath.Join(dir, from), from, to); err != nil {
			return err
		}
	}
	return nil
}

// copyRecords copies the JSON files of a directory, with another ID in them.
func copyRecords(to, from, id, other string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, strings.TrimPrefix(path, from))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		return os.WriteFile(at, bytes.ReplaceAll(b, []byte(id), []byte(other)), 0o600)
	})
}

func (p *pageLab) paint(ctx context.Context) (float64, error) {
	painted, _, err := p.browser.load(ctx, p.address)
	return painted, err
}

func (p *pageLab) list(ctx context.Context) (float64, error) {
	_, listed, err := p.browser.load(ctx, p.address)
	return listed, err
}

// close ends what open began. The copies go without a daemon: they have no machines.
func (p *pageLab) close(ctx context.Context) error {
	if p.browser != nil {
		p.browser.close()
	}
	if p.ui != nil && p.ui.Process != nil {
		_ = p.ui.Process.Signal(os.Interrupt)
		_ = p.ui.Wait()
	}
	_, err := p.installation.Do(ctx, p.installation.Home.Dir, "daemon", "stop")
	for _, dir := range p.copies {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}
