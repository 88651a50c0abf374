package mcp

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
)

// boxIn names a box. The comments of these types are for models, in tags.
type boxIn struct {
	Box string `json:"box" jsonschema:"name or ID of the box, as box_up or box_ls gave it"`
}

type upIn struct {
	Directory string `json:"directory,omitempty" jsonschema:"absolute path of a checkout on the host; default: the one this server was started in"`
	Name      string `json:"name,omitempty" jsonschema:"name for a new box of your own, beside the box of the branch"`
	Image     string `json:"image,omitempty" jsonschema:"image instead of the repository's, such as apt:bookworm or docker.io/library/node:22"`
}

type execIn struct {
	boxIn
	Command string            `json:"command" jsonschema:"a line for sh -c"`
	Dir     string            `json:"dir,omitempty" jsonschema:"directory in the box; default /workspace"`
	Stdin   string            `json:"stdin,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	User    string            `json:"user,omitempty" jsonschema:"user of the box; default its own, who has sudo"`
	Seconds float64           `json:"seconds,omitempty" jsonschema:"end the command after so long; default 120, at most 3600"`
}

type readIn struct {
	boxIn
	Path string `json:"path" jsonschema:"a relative path begins in /workspace"`
	From int    `json:"from,omitempty" jsonschema:"first line, from 1"`
	To   int    `json:"to,omitempty" jsonschema:"last line"`
}

type writeIn struct {
	boxIn
	Path    string `json:"path" jsonschema:"a relative path begins in /workspace; directories are made"`
	Content string `json:"content" jsonschema:"the whole file"`
}

type nameIn struct {
	boxIn
	Name string `json:"name,omitempty" jsonschema:"name for it"`
}

type rollbackIn struct {
	boxIn
	Checkpoint string `json:"checkpoint,omitempty" jsonschema:"its name or ID; default the latest"`
}

type removeIn struct {
	boxIn
	Force bool `json:"force,omitempty" jsonschema:"remove it even if work in it exists nowhere else"`
}

type whyIn struct {
	boxIn
	URL    string `json:"url,omitempty" jsonschema:"URL or host:port to ask about; default: what was denied last"`
	Method string `json:"method,omitempty"`
}

type noneIn struct{}

const (
	defaultSeconds, maxSeconds = 120, 3600
	maxRead                    = 8 << 20
)

func (s Server) addBoxTools(m *mcp.Server) {
	add(m, "box_up", "Make or find the box of a repository and make sure that it runs. The first time may take minutes.", changes, s.up)
	add(m, "box_ls", "List the boxes.", looks, s.list)
	add(m, "box_exec", "Run a command in a box to its end and return its output. Long output is cut in the middle.", changes, s.exec)
	add(m, "box_read_file", "Read a text file of a box.", looks, s.read)
	add(m, "box_write_file", "Write a whole file of a box.", changes, s.write)
	addContent(m, "box_screenshot", "A picture of a web page, by a browser in the box.", changes, s.screenshot)
	add(m, "box_diff", "What changed in a box, committed or not, since it began.", looks, s.diffOfBox)
	add(m, "box_fork", "Copy a box with its processes, memory and workspace. The original goes on.", changes, s.fork)
	add(m, "box_checkpoint", "Save a box with its processes, to return to by box_rollback.", changes, s.checkpoint)
	add(m, "box_rollback", "Return a box to a checkpoint. What was done since is lost.", destroys, s.rollback)
	add(m, "box_reset", "Replace the box's machine by a fresh one: processes, installed packages and /tmp go, /workspace stays.", destroys, s.reset)
	add(m, "box_rm", "Remove a box. Refused if work in it exists nowhere else, unless forced.", destroys, s.remove)
	add(m, "policy_why", "Why a request of a box was denied or would be, by which rule, and the command by which a person can allow it.", looks, s.why)
}

func (s Server) up(ctx context.Context, in upIn, progress agentbox.Progress) (string, error) {
	dir := in.Directory
	if dir == "" {
		dir = s.Directory
	}
	if dir == "" {
		return "", agentbox.Errorf(agentbox.Invalid, "no directory given").WithHint("name the absolute path of a checkout on the host")
	}
	up, err := client.Call(ctx, s.Client, api.Up, api.UpRequest{Directory: dir, Name: in.Name, Image: in.Image}, progress)
	if err != nil {
		return "", err
	}
	text := boxLine(up.Box)
	for _, p := range up.Box.Ports {
		text += fmt.Sprintf("\nport %d of the box is at %s on the host", p.Box, p.Host)
	}
	return text, nil
}

func boxLine(b agentbox.Box) string {
	line := fmt.Sprintf("box %s (%s) is %s, %s, %d CPUs, %d MiB", b.Name, b.ID, b.State, b.Isolation, b.CPUs, b.Memory>>20)
	if b.Directory != "" {
		line += ", of " + b.Directory + " at " + b.Branch
	}
	for _, c := range b.Checkpoint {
		line += ", checkpoint " + strings.TrimSpace(c.Name+" "+c.ID)
	}
	if b.Ended != nil {
		line += ", its last machine ended: " + string(b.Ended.Cause)
	}
	return agentbox.Printable(line)
}

func (s Server) list(ctx context.Context, _ noneIn, _ agentbox.Progress) (string, error) {
	all, err := s.Client.Boxes(ctx)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "there is no box; box_up makes one", nil
	}
	var b strings.Builder
	for _, box := range all {
		fmt.Fprintln(&b, boxLine(box))
	}
	return b.String(), nil
}

func (s Server) exec(ctx context.Context, in execIn, progress agentbox.Progress) (string, error) {
	if in.Seconds <= 0 {
		in.Seconds = defaultSeconds
	}
	req := api.RunRequest{
		BoxRef: api.BoxRef{Box: in.Box}, Script: in.Command, Dir: in.Dir, Env: in.Env, User: in.User, Stdin: in.Stdin, Seconds: min(in.Seconds, maxSeconds), MaxOutput: maxText / 2,
	}
	r, err := client.Call(ctx, s.Client, api.RunInBox, req, progress)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	switch {
	case r.TimedOut:
		fmt.Fprintf(&b, "ended after %g seconds, which was its time; ask for more, or start it in the background\n", req.Seconds)
	case r.Signal != "":
		fmt.Fprintf(&b, "killed by SIG%s\n", r.Signal)
	default:
		fmt.Fprintf(&b, "exit status %d\n", r.Status)
	}
	section(&b, "stdout", r.Stdout)
	section(&b, "stderr", r.Stderr)
	return b.String(), nil
}

func section(b *strings.Builder, name, text string) {
	if text != "" {
		fmt.Fprintf(b, "%s:\n%s\n", name, strings.TrimSuffix(text, "\n"))
	}
}

func (s Server) read(ctx context.Context, in readIn, _ agentbox.Progress) (string, error) {
	content, err := s.Client.ReadFile(ctx, in.Box, in.Path, maxRead)
	switch {
	case agentbox.CodeOf(err) == agentbox.Conflict:
		return "", agentbox.Errorf(agentbox.Conflict, "%w", err).WithHint("read a part with box_exec: head, tail, sed -n, grep")
	case err != nil:
		return "", err
	case !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0:
		return "", agentbox.Errorf(agentbox.Invalid, "%s is not text (%d bytes)", in.Path, len(content)).WithHint("look at it with box_exec: file, xxd")
	}
	if in.From == 0 && in.To == 0 {
		return string(content), nil
	}
	lines := strings.SplitAfter(string(content), "\n")
	from, to := max(in.From, 1), in.To
	if to == 0 || to > len(lines) {
		to = len(lines)
	}
	if from > to {
		return "", agentbox.Errorf(agentbox.Invalid, "%s has %d lines", in.Path, len(lines))
	}
	return strings.Join(lines[from-1:to], ""), nil
}

func (s Server) write(ctx context.Context, in writeIn, _ agentbox.Progress) (string, error) {
	if err := s.Client.WriteFile(ctx, in.Box, in.Path, []byte(in.Content)); err != nil {
		return "", err
	}
	return fmt.Sprintf("wrote %d bytes to %s", len(in.Content), in.Path), nil
}

func (s Server) diffOfBox(ctx context.Context, in boxIn, _ agentbox.Progress) (string, error) {
	return s.diff(ctx, in.Box)
}

func (s Server) diff(ctx context.Context, of string) (string, error) {
	d, err := s.Client.Diff(ctx, of)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %s uncommitted\n", d.Name, agentbox.Plural(d.Commits, "commit"), agentbox.Plural(d.Files, "file"))
	for _, missing := range d.Missing {
		fmt.Fprintf(&b, "could not be read: %s\n", missing)
	}
	b.Write(d.Text)
	return b.String(), nil
}

func (s Server) fork(ctx context.Context, in nameIn, _ agentbox.Progress) (string, error) {
	b, err := s.Client.Fork(ctx, in.Box, in.Name)
	return boxLine(b), err
}

func (s Server) checkpoint(ctx context.Context, in nameIn, _ agentbox.Progress) (string, error) {
	c, err := s.Client.Checkpoint(ctx, in.Box, in.Name)
	return "saved checkpoint " + strings.TrimSpace(c.Name+" "+c.ID), err
}

func (s Server) rollback(ctx context.Context, in rollbackIn, _ agentbox.Progress) (string, error) {
	b, err := s.Client.Rollback(ctx, in.Box, in.Checkpoint)
	return boxLine(b), err
}

func (s Server) reset(ctx context.Context, in boxIn, progress agentbox.Progress) (string, error) {
	b, err := client.Call(ctx, s.Client, api.Reset, api.BoxRef{Box: in.Box}, progress)
	return boxLine(b), err
}

// remove asks first what would be lost, as the command line does.
func (s Server) remove(ctx context.Context, in removeIn, _ agentbox.Progress) (string, error) {
	if !in.Force {
		u, err := client.Call(ctx, s.Client, api.Unsaved, api.BoxRef{Box: in.Box}, nil)
		if err != nil {
			return "", agentbox.Errorf(agentbox.Conflict, "cannot tell what would be lost: %w", err)
		}
		if u.Commits+u.Files+len(u.Missing) > 0 {
			return "", agentbox.Errorf(agentbox.Conflict, "%s and %s in box %s exist nowhere else: %s", agentbox.Plural(u.Commits, "commit"), agentbox.Plural(u.Files, "file"), u.Name,
				strings.Join(append(append(u.Titles, u.Paths...), u.Missing...), ", ")).WithHint("look at box_diff; ask whether it may go, and then give force")
		}
	}
	return "removed " + in.Box, s.Client.Remove(ctx, in.Box)
}
