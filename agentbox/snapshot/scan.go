package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/git"
)

// minSecret is the shortest value that is searched for: a shorter one is in any file.
const minSecret = 8

// FindSecret looks for the values of secrets in all that a snapshot has and its base has not, commits
// in between included. The error is Conflict, and names the first file and the secret in it.
func (d Document) FindSecret(ctx context.Context, dir string, values map[string]string) error {
	for name, value := range values {
		if len(value) < minSecret {
			delete(values, name)
		}
	}
	if len(values) == 0 {
		return nil
	}
	m := mirror{mirrorFor(dir, len(d.Whole))}
	args := append([]string{"rev-list", "--objects", "--missing=allow-any"}, d.tips()...)
	if d.Base != "" {
		args = append(args, "^"+d.Base)
	}
	list, _, err := m.Run(ctx, git.Call{Args: args})
	if err != nil {
		return mirrorError(err)
	}
	var ids, names []string
	for line := range strings.Lines(string(list)) {
		id, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		ids, names = append(ids, id), append(names, name)
	}
	in := strings.NewReader(strings.Join(ids, "\n") + "\n")
	return background.Pipe(ctx, func(ctx context.Context, w io.Writer) error {
		_, _, err := m.Run(ctx, git.Call{Args: []string{"cat-file", "--batch"}, Stdin: in, Stdout: w})
		return mirrorError(err)
	}, func(ctx context.Context, r io.Reader) error {
		return searchObjects(bufio.NewReaderSize(r, 1<<20), names, values)
	})
}

// searchObjects reads the output of git cat-file --batch, an object for each name.
func searchObjects(in *bufio.Reader, names []string, values map[string]string) error {
	longest := 0
	for _, v := range values {
		longest = max(longest, len(v))
	}
	for _, name := range names {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		f := strings.Fields(line)
		if len(f) != 3 {
			continue // missing
		}
		size, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return err
		}
		found, err := search(io.LimitReader(in, size), values, longest)
		if found != "" {
			return agentbox.Errorf(agentbox.Conflict, "%s has the value of the secret %s", whereOf(name, f[1]), found).
				WithHint("remove it there, and from the commits of the box, or change the secret; nothing was kept of it outside this machine")
		}
		if err == nil {
			_, err = in.Discard(1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func whereOf(name, kind string) string {
	if name == "" {
		return "a " + kind + " of the workspace"
	}
	return strconv.Quote(strings.TrimPrefix(name, "ignored/"))
}

// search reads all of r, and returns the name of a value in it. Windows overlap by the longest value.
func search(r io.Reader, values map[string]string, longest int) (found string, err error) {
	const window = 1 << 20
	buf := make([]byte, 0, window+longest)
	for err == nil {
		n := 0
		n, err = io.ReadFull(r, buf[len(buf):len(buf)+window])
		buf = buf[:len(buf)+n]
		for name, value := range values {
			if found == "" && bytes.Contains(buf, []byte(value)) {
				found = name
			}
		}
		keep := min(len(buf), longest)
		buf = slices.Delete(buf, 0, len(buf)-keep)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return found, err
}
