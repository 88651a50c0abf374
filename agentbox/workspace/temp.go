package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agentbox/agentbox"
)

// maxInMemory bounds what is staged in memory; a larger tree takes seconds anyway. In bytes.
const maxInMemory = 1 << 30

// StageTemp stages like Stage, into a tree that is read once and removed by RemoveTemp: in memory
// when there is plenty for it, else at near, which must not exist. Creating and removing thousands
// of small files is what staging costs, and in memory that is up to twenty times cheaper. The tree
// is only for reading. Where it does not fit after all, it is made at near instead. The caller
// removes it by RemoveTemp(near), wherever it is; tree is the path to read.
func StageTemp(ctx context.Context, repo Repo, near string) (tree string, stats Stats, err error) {
	if err := RemoveTemp(near); err != nil {
		return "", Stats{}, err
	}
	// Mkdir fails where somebody put anything there, a link included.
	if tree, limit := inMemory(near); limit > 0 && os.Mkdir(tree, 0o700) == nil {
		stats, err = Stage(ctx, repo, tree, Options{Limit: limit})
		if err == nil {
			return tree, stats, nil
		}
		err = errors.Join(err, os.RemoveAll(tree))
		// Of the two that are left the disk may have room.
		if agentbox.CodeOf(err) != agentbox.NoSpace {
			return "", Stats{}, err
		}
	}
	stats, err = Stage(ctx, repo, near, Options{Link: true})
	return near, stats, err
}

// RemoveTemp removes what StageTemp made for near, also what an earlier process left behind when it
// was killed. It is not an error when there is nothing.
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

// memoryPath is where the tree for near goes in memory: found again from near alone, so that nobody
// has to remember it. Others can create files beside it, which is why it must be ours (mkdir fails
// on anything that is there).
func memoryPath(near string) string {
	abs, err := filepath.Abs(near)
	if memoryRoot == "" || err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(abs))
	return fmt.Sprintf("%s/agentbox-%d-%s", memoryRoot, os.Getuid(), hex.EncodeToString(sum[:8]))
}

// inMemory is the path for near and how many bytes may be put there; 0 when this host has nowhere.
// It is an eighth of what is free at most.
func inMemory(near string) (path string, limit int64) {
	if path = memoryPath(near); path == "" {
		return "", 0
	}
	return path, min(maxInMemory, spareMemory()/8)
}
