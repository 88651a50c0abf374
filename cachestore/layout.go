package cachestore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"agentbox/agentbox"
	"agentbox/cachestore/disk"
)

// Names in a store's directory:
//
//	lock                       held while a process has the store open
//	index/                     badger
//	index.bad-<time>/          an index that could not be read; may be deleted
//	rebuild                    marks an index that is being rebuilt, and so is incomplete
//	ballast                    space that gc frees on a full disk to be able to work
//	packs/<id>.pack            see package pack
//	images/<id>-<hex>.img      the sparse file of the image with the manifest <hex>
//	images/.new-<id>           an image that is being written
//	names/<hash>               a signed name; <hash> is of its namespace and key
//	names/<hash>.alarm         a name of the same key with another manifest, which lost
//	pins/<hash>                a pin; <hash> is of its name
//	quarantine/<hex>           damage to a chunk: where, when and why
//	quota.json
//
// <id> is 16 hexadecimal digits, counted up and never used twice; <hex> a digest without its
// prefix.
const (
	lockName        = "lock"
	indexDir        = "index"
	badIndexPrefix  = "index.bad-"
	rebuildName     = "rebuild"
	reserveFileName = "ballast"
	packsDir        = "packs"
	imagesDir       = "images"
	namesDir        = "names"
	pinsDir         = "pins"
	quarantineDir   = "quarantine"
	quotaName       = "quota.json"

	packSuffix  = ".pack"
	imageSuffix = ".img"
	alarmSuffix = ".alarm"
)

// packName returns the name of a pack in packs/. The number has a fixed width, so that listings are
// in the order in which packs were started.
func packName(id uint64) string { return fmt.Sprintf("%016x%s", id, packSuffix) }

// imageName returns the name of an image file in images/. It contains the manifest, because a
// rebuild needs it to know what each block should be.
func imageName(id uint64, manifest agentbox.Digest) string {
	return fmt.Sprintf("%016x-%s%s", id, manifest.Hex(), imageSuffix)
}

func parsePack(name string) (uint64, bool) {
	return parseID(name, packSuffix)
}

func parseImage(name string) (uint64, agentbox.Digest, bool) {
	number, rest, ok := strings.Cut(name, "-")
	id, ok2 := parseID(number, "")
	rest, ok3 := strings.CutSuffix(rest, imageSuffix)
	d, err := agentbox.ParseDigest("sha256:" + rest)
	return id, d, ok && ok2 && ok3 && err == nil
}

// parseID accepts only the form in which ids are written, so that no two names mean the same file.
func parseID(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	id, err := strconv.ParseUint(digits, 16, 64)
	return id, err == nil && id > 0 && strings.ToLower(digits) == digits
}

// hashed returns a file name for any text, so that keys may contain slashes and have any length.
// Parts cannot be confused, because none contains a NUL (blob.CheckKey).
func hashed(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// dir is the directory of a store, and gives errors of its disk our codes.
type dir struct {
	fs   disk.FS
	root string
}

// list returns a directory's files, sorted, without those that are being written.
func (d dir) list(name string) ([]string, error) {
	entries, err := d.fs.List(d.path(name))
	if err != nil {
		return nil, d.hostError(err)
	}
	var out []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), disk.TempPrefix) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// path returns the path of something in the store, relative if Config.Dir is.
func (d dir) path(parts ...string) string {
	return filepath.Join(append([]string{d.root}, parts...)...)
}
