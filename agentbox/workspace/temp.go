package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agentbox/agentbox"
)

// maxInMemory bounds, in bytes, what is staged in memory. A larger tree takes seconds anyway.
const maxInMemory = 1 << 30

// Temp provides a tree that is read once and then removed. Staging mostly costs creating and
// removing thousands of small files, which is up to twenty times cheaper in memory. Temp therefore
// calls stage for a path in memory when there is plenty, and otherwise, or if the tree does not fit,
// for the path near, which it replaces. It returns the path of the tree, which must not be written
// to where files are links. In either case the caller removes it with RemoveTemp(near).
func Temp(near string, stage func(dst string, opts Options) (Stats, error)) (tree string, stats Stats, err error) {
	if err := RemoveTemp(near); err != nil {
		return "", Stats{}, err
	}
	// Mkdir fails if anything, even a link, is already there.
	if tree, limit := inMemory(near); limit > 0 && os.Mkdir(tree, 0o700) == nil {
		stats, err = stage(tree, Options{Limit: limit})
		if err == nil {
			return tree, stats, nil
		}
		err = errors.Join(err, os.RemoveAll(tree))
		// The disk may still have room.
		if agentbox.CodeOf(err) != agentbox.NoSpace {
			return "", Stats{}, err
		}
	}
	stats, err = stage(near, Options{Link: true})
	return near, stats, err
}

// RemoveTemp removes what Temp made for near, including leftovers of a killed process. It
// is not an error if there is nothing.
func RemoveTemp(near string) error {
	err := os.RemoveAll(near)
	if tree := memoryPath(near); tree != "" {
		if fi, statErr := os.Lstat(tree); statErr == nil && fi.IsDir() && ownedByUs(fi) {
			err = errors.Join(err, os.RemoveAll(tree))
		}
	}
	if err != nil {
		return agentbox.Errorf(agentbox.Internal, "cannot remove a staged workspace: %w", err)
	}
	return nil
}

// memoryPath returns where the tree for near goes in memory, or "" if it cannot. It derives from
// near alone, so nothing has to record it. Other users can create files beside it, so it must be
// ours; Mkdir fails on anything that already exists.
func memoryPath(near string) string {
	abs, err := filepath.Abs(near)
	if memoryRoot == "" || err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(abs))
	return fmt.Sprintf("%s/agentbox-%d-%s", memoryRoot, os.Getuid(), hex.EncodeToString(sum[:8]))
}

// inMemory returns the path in memory for near and how many bytes may be stored there: at most an
// eighth of what is free, and 0 if this host has no such place.
func inMemory(near string) (path string, limit int64) {
	if path = memoryPath(near); path == "" {
		return "", 0
	}
	return path, min(maxInMemory, spareMemory()/8)
}
