package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/git"
	"agentbox/agentbox/workspace"
)

// Document is a snapshot: what a workspace was, as commits of its project's mirror. A box had a say in
// all of it but Version and Project. Two snapshots of the same workspace are equal, and have one ID.
type Document struct {
	Version int    `json:"version"`
	Project string `json:"project"`
	Branch  string `json:"branch,omitempty"` // without refs/heads/; "" for a detached HEAD
	// Base is the commit that the box began with, Head what was checked out, Whole everything that was
	// in the workspace, Rest a commit with what restores it exactly. Each but Whole may be "".
	Base  string `json:"base,omitempty"`
	Head  string `json:"head,omitempty"`
	Whole string `json:"whole"`
	Rest  string `json:"rest,omitempty"`
	// Commits and Files count those that the box made, and those that were uncommitted.
	Commits int `json:"commits"`
	Files   int `json:"files"`
	// Others are commits beside Whole: of branches, and of repositories in the workspace.
	Others  []agentbox.OtherWork `json:"others,omitempty"`
	Missing []string             `json:"missing,omitempty"` // what could not be read, and why
	Shallow []string             `json:"shallow,omitempty"` // where the history of the checkout ends
	Partial bool                 `json:"partial,omitempty"` // the checkout had not all objects of its history

	// Holder is who keeps it on this machine: "" for its user. Each of them has a Key of its own for what
	// is one snapshot, and drops its own.
	Holder string `json:"-"`

	sent *os.File // as in Kept
}

const documentVersion = 1

// MaxDocument bounds a Document as JSON, in bytes.
const MaxDocument = 4 << 20

// Key is what a snapshot with this ID is kept under: the ID, then the holder.
func (d Document) Key(id agentbox.Digest) string {
	if d.Holder == "" {
		return id.Hex()
	}
	return id.Hex() + "@" + d.Holder
}

// snapshotRef is the ref of a snapshot in the mirror.
func snapshotRef(key string) string { return namespace + "snapshots/" + key }

// SnapshotOf is the ref under which the newest snapshot of a box is kept until it has an ID.
func SnapshotOf(box agentbox.BoxID) string { return namespace + "latest/" + box.String() }

// NewDocument describes what was kept with Request.Rest and Request.All. It points refs of the mirror
// at all of it, which Drop removes.
func NewDocument(ctx context.Context, kept Kept, project string) (Document, agentbox.Digest, error) {
	d := Document{
		Version: documentVersion, Project: project, Branch: kept.Branch, Base: kept.Base, Head: kept.Head, Whole: kept.Whole, Rest: kept.Rest,
		Commits: kept.Commits, Files: kept.Files, Others: kept.Others(), Missing: kept.Missing, Partial: exists(filepath.Join(kept.Mirror, promised)), Holder: kept.Holder, sent: kept.sent,
	}
	m := mirror{kept.Mirror}
	// Without its base in the mirror, a snapshot has all of its history.
	if has, err := m.has(ctx, d.Base); err != nil || !has[d.Base] {
		d.Base = ""
	}
	for i := range d.Others {
		d.Others[i].Ref = ""
	}
	text, err := os.ReadFile(filepath.Join(m.dir, "shallow"))
	if err == nil {
		d.Shallow = strings.Fields(string(text))
	}
	id, err := d.ID()
	if err != nil {
		return d, id, err
	}
	return d, id, m.setRefs(ctx, d.refs(id))
}

// ID is the digest of a snapshot.
func (d Document) ID() (agentbox.Digest, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return agentbox.Digest{}, err
	}
	id, _, err := agentbox.DigestOf(bytes.NewReader(b))
	return id, err
}

// tips are all commits that a snapshot names, without its base.
func (d Document) tips() []string {
	tips := []string{d.Whole}
	if d.Rest != "" {
		tips = append(tips, d.Rest)
	}
	for _, o := range d.Others {
		tips = append(tips, o.Commit)
	}
	return tips
}

func (d Document) refs(id agentbox.Digest) map[string]string {
	key := d.Key(id)
	refs := map[string]string{snapshotRef(key): d.Whole}
	for i, tip := range d.tips()[1:] {
		refs[branchesRef+"snapshots/"+key+"/"+strconv.Itoa(i)] = tip
	}
	return refs
}

// ParseDocument reads a snapshot that may come from another machine. The error is Corrupt.
func ParseDocument(b []byte) (d Document, err error) {
	if len(b) > MaxDocument {
		return d, corruptDocument("it has %d bytes", len(b))
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return d, corruptDocument("%v", err)
	}
	if d.Version != documentVersion || d.Project == "" || d.Project != agentbox.Printable(d.Project) || d.Commits < 0 || d.Files < 0 {
		return d, corruptDocument("version %d of project %q", d.Version, d.Project)
	}
	if d.Branch != "" && !refOfBox().MatchString(d.Branch) {
		return d, corruptDocument("branch %q", d.Branch)
	}
	ids := slices.Concat(d.tips(), d.Shallow)
	for _, id := range []string{d.Base, d.Head} {
		if id != "" {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		if !isObject(id, len(d.Whole)) || len(id) != 40 && len(id) != 64 {
			return d, corruptDocument("%.80q is no commit", id)
		}
	}
	for _, o := range d.Others {
		if agentbox.Printable(o.Name+o.Path) != o.Name+o.Path || o.Ref != "" || o.Branch != "" || o.Files < 0 {
			return d, corruptDocument("other work %q", o.Name)
		}
	}
	return d, nil
}

func corruptDocument(format string, args ...any) error {
	return agentbox.Errorf(agentbox.Corrupt, "this is no snapshot: "+format, args...)
}

// Kept is the work of a snapshot in the mirror of its project (home.Mirror).
func (d Document) Kept(mirror string) Kept {
	k := Kept{Commit: d.Whole, Whole: d.Whole, Head: d.Head, Base: d.Base, Branch: d.Branch, Rest: d.Rest, Commits: d.Commits, Files: d.Files, Missing: d.Missing, Mirror: mirrorFor(mirror, len(d.Whole)), exact: true}
	for _, o := range d.Others {
		k.OtherRefs = append(k.OtherRefs, Branch{OtherWork: o})
	}
	return k
}

// Drop removes the refs of a snapshot from a mirror. Its objects stay until git collects them.
func (d Document) Drop(ctx context.Context, dir string, id agentbox.Digest) error {
	m := mirror{mirrorFor(dir, len(d.Whole))}
	var in strings.Builder
	for ref := range d.refs(id) {
		fmt.Fprintf(&in, "delete %s\n", ref)
	}
	_, err := m.git(ctx, strings.NewReader(in.String()), "update-ref", "--no-deref", "--stdin")
	return mirrorError(err)
}

// HeldKeys lists the keys under which a mirror has snapshots of others than the user (Document.Key).
func HeldKeys(ctx context.Context, dir string) ([]string, error) {
	out, err := mirror{dir}.git(ctx, nil, "for-each-ref", "--format=%(refname:lstrip=3)", snapshotRef("*@*"))
	return strings.Fields(out), mirrorError(err)
}

// DropKey removes the refs of a snapshot from a mirror, as Document.Drop does without the document.
func DropKey(ctx context.Context, dir, key string) error {
	refs, err := mirror{dir}.git(ctx, nil, "for-each-ref", "--format=delete %(refname)", snapshotRef(key), branchesRef+"snapshots/"+key+"/")
	if err == nil {
		_, err = mirror{dir}.git(ctx, strings.NewReader(refs), "update-ref", "--no-deref", "--stdin")
	}
	return mirrorError(err)
}

// WriteWork writes a pack of all that a snapshot has and its base has not. It builds on objects of
// the base.
func (d Document) WriteWork(ctx context.Context, dir string, w io.Writer) error {
	if d.sent != nil && d.Base != "" && !d.Partial {
		_, err := io.Copy(w, io.NewSectionReader(d.sent, 0, math.MaxInt64))
		return err
	}
	return mirror{mirrorFor(dir, len(d.Whole))}.packWork(ctx, w, d.tips(), d.Partial, d.Base)
}

// WriteHistory writes a pack of the base with its history, without that of commits which a mirror elsewhere
// has. Those that this one lacks do not count.
func (d Document) WriteHistory(ctx context.Context, dir string, w io.Writer, there ...string) error {
	m := mirror{mirrorFor(dir, len(d.Whole))}
	known, err := m.has(ctx, slices.DeleteFunc(slices.Clone(there), func(id string) bool { return !isObject(id, len(d.Whole)) })...)
	if err != nil {
		return err
	}
	if len(known) == 0 && !d.Partial {
		if pack := m.historyPack(d.Base); pack != nil {
			defer pack.Close()
			_, err := io.Copy(w, pack)
			return err
		}
	}
	return git.PackAll(ctx, m, w, []string{d.Base}, d.Partial, slices.Sorted(maps.Keys(known))...)
}

// Unchanged describes a commit of a project without any change. The error is Corrupt for names that
// are none.
func Unchanged(project, commit string) (Document, error) {
	b, err := json.Marshal(Document{Version: documentVersion, Project: project, Base: commit, Head: commit, Whole: commit})
	if err != nil {
		return Document{}, err
	}
	return ParseDocument(b)
}

// Bases are the newest commits with which boxes began that a mirror has for documents like this one.
func (d Document) Bases(ctx context.Context, dir string, most int) ([]string, error) {
	m, err := openMirror(ctx, dir, len(d.Whole))
	if err != nil {
		return nil, err
	}
	out, err := m.git(ctx, nil, "for-each-ref", "--sort=-committerdate", fmt.Sprintf("--count=%d", most), "--format=%(objectname)", basesRef)
	return strings.Fields(out), mirrorError(err)
}

// Lacks reports what a mirror lacks of a snapshot: its base, or what was done since.
func (d Document) Lacks(ctx context.Context, dir string) (history, work bool, err error) {
	m, err := openMirror(ctx, dir, len(d.Whole))
	if err != nil {
		return false, false, err
	}
	has, err := m.has(ctx, append(d.tips(), d.Base)...)
	for _, tip := range d.tips() {
		work = work || !has[tip]
	}
	return work && d.Base != "" && !has[d.Base], work, err
}

// Receive takes the packs of a snapshot, which another machine made, into a mirror. git checks each of
// their objects, and nothing is kept of a pack that does not have what the snapshot names. history is
// nil if the mirror has the base.
func (d Document) Receive(ctx context.Context, dir string, history, work io.Reader) error {
	m, err := d.mirror(ctx, dir)
	if err != nil {
		return err
	}
	if history != nil {
		if err := m.receiveHistory(ctx, history, d); err != nil {
			return err
		}
	}
	if work != nil {
		if err := m.receivePack(ctx, work, DefaultLimit, d.Partial, d.tips()); err != nil {
			return err
		}
	}
	have, err := m.has(ctx, d.tips()...)
	if i := slices.IndexFunc(d.tips(), func(id string) bool { return !have[id] }); err == nil && i >= 0 {
		err = corruptDocument("%.12s is not a commit", d.tips()[i])
	}
	if err != nil {
		return err
	}
	id, err := d.ID()
	if err != nil {
		return err
	}
	return m.setRefs(ctx, d.refs(id))
}

// mirror opens the mirror that is to have a snapshot, which says what it lacks of the history.
func (d Document) mirror(ctx context.Context, dir string) (mirror, error) {
	m, err := openMirror(ctx, dir, len(d.Whole))
	if err == nil {
		err = m.addShallow(ctx, d.Shallow)
	}
	if err == nil && d.Partial {
		err = mirrorError(os.WriteFile(filepath.Join(m.dir, promised), nil, 0o600))
	}
	return m, err
}

// ReceiveBase takes the history of what a snapshot is to build on, as Receive does.
func (d Document) ReceiveBase(ctx context.Context, dir string, history io.Reader) error {
	m, err := d.mirror(ctx, dir)
	if err != nil {
		return err
	}
	return m.receiveHistory(ctx, history, d)
}

// ReceiveOver takes the work of a snapshot that a box of another machine has made from a source of this
// one: repo has its base, or else the mirror has. Nothing of the history is believed.
func (d *Document) ReceiveOver(ctx context.Context, dir string, repo workspace.Repo, work io.Reader) error {
	k := keepRun{req: Request{Mirror: dir, Base: repo.Commit, Checkout: repo.Root}}
	if err := k.prepare(ctx); err != nil {
		return err
	}
	d.Shallow, d.Partial = nil, k.partial()
	return d.receiveKnown(ctx, k.mirror, dir, work)
}

// ReceiveBack takes the work of a snapshot that another machine has made from one of this machine's,
// which has its base.
func (d *Document) ReceiveBack(ctx context.Context, dir string, work io.Reader) error {
	m, err := openMirror(ctx, dir, len(d.Whole))
	if err != nil {
		return err
	}
	d.Shallow, d.Partial = nil, exists(filepath.Join(m.dir, promised))
	return d.receiveKnown(ctx, m, dir, work)
}

// receiveKnown takes work whose base a mirror must have.
func (d *Document) receiveKnown(ctx context.Context, m mirror, dir string, work io.Reader) error {
	has, err := m.has(ctx, d.Base)
	if err == nil && d.Base != "" && !has[d.Base] {
		err = corruptDocument("it builds on %.12s, which is not here", d.Base)
	}
	if err != nil {
		return err
	}
	return d.Receive(ctx, dir, nil, work)
}

// KeepPushed keeps a snapshot that a machine handed back under a ref of its name, which it returns, in
// place of an earlier one.
func (d Document) KeepPushed(ctx context.Context, dir, machine string) (string, error) {
	name := unusual().ReplaceAllString(machine, "-")
	ref := namespace + "pushed/" + cmp.Or(name[:min(len(name), 60)], "other")
	return ref, mirror{mirrorFor(dir, len(d.Whole))}.setRefs(ctx, map[string]string{ref: d.Whole})
}

// SameWork tells whether two snapshots in a mirror have the same commits, files, index and branches. The
// times of files do not count: gVisor changes them by microseconds when it saves a box.
func (d Document) SameWork(ctx context.Context, dir string, o Document) (bool, error) {
	if d.Head != o.Head || d.Branch != o.Branch || !slices.Equal(d.Others, o.Others) || (d.Rest == "") != (o.Rest == "") {
		return false, nil
	}
	args := []string{"rev-parse", d.Whole + "^{tree}", o.Whole + "^{tree}"}
	if d.Rest != "" {
		for _, name := range []string{"staged", "unmerged", "flags", "modes", "refs", "ignored", "state"} {
			args = append(args, d.Rest+":"+name, o.Rest+":"+name)
		}
	}
	out, err := mirror{mirrorFor(dir, len(d.Whole))}.git(ctx, nil, args...)
	ids := strings.Fields(out)
	if err != nil || len(ids)%2 != 0 {
		return false, mirrorError(err)
	}
	for i := 0; i < len(ids); i += 2 {
		if ids[i] != ids[i+1] {
			return false, nil
		}
	}
	return true, nil
}

// addShallow adds ends of an incomplete history whose commits the mirror lacks.
func (m mirror) addShallow(ctx context.Context, ends []string) error {
	have, err := m.has(ctx, ends...)
	if err != nil {
		return err
	}
	if ends = slices.DeleteFunc(ends, func(id string) bool { return have[id] }); len(ends) == 0 {
		return nil
	}
	shallowMutex.Lock()
	defer shallowMutex.Unlock()
	path := filepath.Join(m.dir, "shallow")
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return mirrorError(err)
	}
	ends = append(ends, strings.Fields(string(old))...)
	slices.Sort(ends)
	return mirrorError(durable.WriteFile(path, []byte(strings.Join(slices.Compact(ends), "\n")+"\n"), 0o600))
}

// Exact finds what was checked out and what restores it of work that a ref names, so that a Document
// can be made of it.
func (k Kept) Exact(ctx context.Context) (Kept, error) {
	head, whole, last, err := mirror{k.Mirror}.states(ctx, k)
	k.Head, k.Whole, k.Rest, k.exact = head, whole, last, true
	return k, err
}

// Plain is the same work without the index, and without the state of interrupted operations: git would
// run the commands of a rebase with the user's rights.
func (k Kept) Plain() Kept {
	k.Rest = ""
	return k
}

// Digests returns sha256:<hex> of the files with some names in a snapshot. Those that it does not have
// are left out.
func (d Document) Digests(ctx context.Context, dir string, names []string) (map[string]string, error) {
	m := mirror{mirrorFor(dir, len(d.Whole))}
	found := map[string]string{}
	for _, name := range names {
		sum := sha256.New()
		_, _, err := m.Run(ctx, git.Call{Args: []string{"cat-file", "blob", d.Whole + ":" + filepath.ToSlash(filepath.Clean(name))}, Stdout: sum})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			found[name] = "sha256:" + hex.EncodeToString(sum.Sum(nil))
		}
	}
	return found, nil
}

// TakeBase takes what a snapshot builds on from a checkout into a mirror, and tells whether the mirror
// lacks it nevertheless.
func (d Document) TakeBase(ctx context.Context, dir, checkout string) (lacks bool, err error) {
	repo, err := workspace.Describe(ctx, checkout)
	if err != nil {
		return true, nil // no checkout, nothing in it
	}
	m, err := openMirror(ctx, dir, len(d.Whole))
	if err != nil {
		return true, err
	}
	k := keepRun{mirror: m, repo: &repo, req: Request{Base: d.Base}}
	if err := k.seedBase(ctx); err != nil {
		return true, err
	}
	has, err := m.has(ctx, d.Base)
	return !has[d.Base], err
}
