package source

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// racy is how long before a capture a file must have changed for its stamp to be trusted: a change
// in the same tick of the file system's clock has the same times. The coarsest tick is 2 seconds.
const racy = 2 * time.Second

// previous is what the last capture of a checkout found.
type previous struct {
	digest agentbox.Digest
	tree   string
	*manifest
	at     map[string]int // the place of each path in Entries
	stamps []stamp        // beside Entries
}

// stamp is the part of a file's Identity that its entry does not have; zero for a file that changed
// so shortly before it was captured that it has to be read again.
type stamp struct {
	inode   uint64
	changed int64
}

// unchanged returns the entry of a file that is as it was at the last capture.
func (p *previous) unchanged(path string, now durable.Identity) (entry, bool) {
	if p == nil {
		return entry{}, false
	}
	i, ok := p.at[path]
	if !ok {
		return entry{}, false
	}
	e, s := p.Entries[i], p.stamps[i]
	size := e.Size
	if e.Kind == kindLink {
		size = int64(len(e.Target))
	}
	return e, s != stamp{} && s == stamp{now.Inode, now.Changed} && (e.Time == 0 || e.Time == now.MTime) && size == now.Size
}

func (p *previous) shared(file, path string) (entry, bool) {
	i, ok := p.at[path]
	if !ok || p.Entries[i].Kind != kindFile {
		return entry{}, false
	}
	now, err := os.Lstat(file)
	before, beforeErr := os.Lstat(filepath.Join(p.tree, filepath.FromSlash(path)))
	return p.Entries[i], err == nil && beforeErr == nil && os.SameFile(now, before)
}

// stampFile is the file with the stamps of the checkout at root: its source's digest, and one line
// for each entry of the manifest, "INODE CTIME" or empty.
func (s *Store) stampFile(root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(s.Dir, stampDir, hex.EncodeToString(sum[:16]))
}

// readPrevious reads what the last capture found; nil if unknown, or its source is gone.
func (s *Store) readPrevious(root string) *previous {
	f, err := os.Open(s.stampFile(root))
	if err != nil {
		return nil
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	if !in.Scan() {
		return nil
	}
	p := &previous{}
	if p.digest, err = agentbox.ParseDigest(in.Text()); err != nil {
		return nil
	}
	if p.manifest, err = s.readManifest(p.digest); err != nil {
		return nil
	}
	p.tree, p.at = s.tree(p.digest), make(map[string]int, len(p.Entries))
	for i, e := range p.Entries {
		p.at[e.Path] = i
	}
	for in.Scan() {
		inode, changed, _ := strings.Cut(in.Text(), " ")
		var one stamp
		one.inode, _ = strconv.ParseUint(inode, 10, 64)
		one.changed, _ = strconv.ParseInt(changed, 10, 64)
		p.stamps = append(p.stamps, one)
	}
	if len(p.stamps) != len(p.Entries) {
		return nil
	}
	return p
}

// writeStamps writes the stamps of files that were listed after begun.
func (s *Store) writeStamps(root string, d agentbox.Digest, m *manifest, seen map[string]durable.Identity, begun time.Time) error {
	var b strings.Builder
	fmt.Fprintln(&b, d)
	for _, e := range m.Entries {
		if id, ok := seen[e.Path]; ok && (e.Time == 0 || e.Time == id.MTime) && id.Changed < begun.Add(-s.racy).UnixNano() {
			fmt.Fprintf(&b, "%d %d", id.Inode, id.Changed)
		}
		b.WriteByte('\n')
	}
	return durable.Replace(s.stampFile(root), []byte(b.String()), 0o600)
}
