package git

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
)

// Refs are refs and reflogs of a repository, by full name: HEAD, ORIG_HEAD, refs/heads/main.
type Refs struct {
	Objects  map[string]string   // full hex
	Symbolic map[string]string   // the ref that it stands for
	Logs     map[string][]string // lines of a reflog file, the oldest first
}

// Limits of a stack of reftables: bytes of all its files, and of what they hold without their
// compression; files; and how often it is read again because git compacted it meanwhile.
const (
	maxRefs     = 256 << 20
	maxUnpacked = 512 << 20
	maxTables   = 10_000
	rounds      = 5
)

// tableName matches the files that a stack may name.
var tableName = agentbox.Pattern(`^[0-9A-Za-z_-]{1,100}\.(ref|log)$`)

// ReadReftables reads the refs of a directory called reftable. It follows no links. What a name
// stands for has to be checked before a file is called that.
func ReadReftables(dir string) (Refs, error) {
	var err error
	for range rounds {
		var stack []reftable
		if stack, err = readStack(dir); err == nil {
			return merge(stack), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return Refs{}, err
}

func readStack(dir string) (stack []reftable, err error) {
	list, err := ReadPlain(filepath.Join(dir, "tables.list"), maxTables*100)
	if err != nil {
		return nil, err
	}
	left, unpacked := int64(maxRefs), maxUnpacked
	for name := range strings.Lines(string(list)) {
		name = strings.TrimSuffix(name, "\n")
		if !tableName().MatchString(name) || len(stack) == maxTables {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "tables.list"), errReftable)
		}
		data, err := ReadPlain(filepath.Join(dir, name), left)
		if err != nil {
			return nil, err
		}
		left -= int64(len(data))
		t, err := parseReftable(data, &unpacked)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
		stack = append(stack, t)
	}
	return stack, nil
}
