package secrets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"agentbox/agentbox"
)

// Programs keep the tokens of subscriptions in files of their own, as one value among others, and
// renew them there. A reference PATH#KEY.KEY names such a value. Files of this kind are read with
// more care than others, because profiles of agents name them: below the user's home, through no
// link, of the user's own and written by nobody else.

// jsonKeys matches what follows the last # of a path to name a value in the file.
var jsonKeys = agentbox.Pattern(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}$`)

// maxJSON bounds a file that contains a token, in bytes.
const maxJSON = 1 << 20

// splitJSON splits a reference; keys is nil for a file that contains only the value. A path may
// have a # of its own, unless a list of keys follows the last one.
func splitJSON(of string) (path string, keys []string) {
	i := strings.LastIndexByte(of, '#')
	if i < 0 || !jsonKeys().MatchString(of[i+1:]) {
		return of, nil
	}
	return of[:i], strings.Split(of[i+1:], ".")
}

// readJSON gets the text at keys of a file below the home. Errors name keys, never content.
func readJSON(home, path string, keys []string) (string, error) {
	b, err := readOwn(home, path)
	if err != nil {
		return "", err
	}
	var at any
	if json.Unmarshal(b, &at) != nil {
		return "", errors.New("it is not JSON") // the error could quote it
	}
	for i, key := range keys {
		object, _ := at.(map[string]any)
		if at = object[key]; at == nil {
			return "", fmt.Errorf("it has no %s", strings.Join(keys[:i+1], "."))
		}
	}
	text, ok := at.(string)
	if !ok {
		return "", fmt.Errorf("its %s is not text", strings.Join(keys, "."))
	}
	return text, nil
}

// readOwn reads a file below the home that only the user can write, through no link.
//
// It checks every directory on the way: a user who may write to one of them could put another file
// in its place. It compares the opened file with the one that was checked.
func readOwn(home, path string) ([]byte, error) {
	rel, err := filepath.Rel(home, path)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("%s is not below your home %s", path, home)
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var last os.FileInfo
	at := ""
	for step := range strings.SplitSeq(rel, string(filepath.Separator)) {
		at = filepath.Join(at, step)
		if last, err = root.Lstat(at); err != nil {
			return nil, err
		}
		if err := checkOwner(filepath.Join(home, at), last); err != nil {
			return nil, err
		}
	}
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0) // a FIFO blocks nobody
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case !os.SameFile(info, last):
		return nil, errors.New("it was replaced while it was read")
	case info.Size() > maxJSON:
		return nil, fmt.Errorf("it is larger than %d bytes", maxJSON)
	}
	return io.ReadAll(io.LimitReader(f, maxJSON))
}

// checkOwner refuses a file or directory that somebody else may have put there.
func checkOwner(path string, info os.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		return fmt.Errorf("%s is a link, which is not followed", path)
	case ok && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, and you are %d", path, st.Uid, os.Geteuid())
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others may write to %s (mode %o): chmod go-w it, if nobody has", path, info.Mode().Perm())
	}
	return nil
}
