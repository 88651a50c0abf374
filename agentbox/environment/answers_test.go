package environment

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"agentbox/agentbox"
)

// lyingFiles is an SFTP session with a server that answers by handlers.
func lyingFiles(t *testing.T, handlers sftp.Handlers) *Files {
	t.Helper()
	a, b := pipes()
	srv := sftp.NewRequestServer(b, handlers)
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve() }()
	f := &Files{guard: newGuard(a), stop: func() bool { return true }}
	var err error
	if f.sftp, err = sftp.NewClientPipe(f.guard, f.guard); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close(); b.Close(); <-done })
	return f
}

// endless serves directories without end, and one file that is of a size and never ends.
type endless struct{ size int64 }

func (e endless) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Method == "List" {
		return e, nil
	}
	return lines{sized{falseInfo{path.Base(r.Filepath), 0o644}, e.size}}, nil
}

func (e endless) ListAt(to []fs.FileInfo, _ int64) (int, error) {
	for i := range to {
		to[i] = falseInfo{strings.Repeat("x", 250), 0o644}
	}
	return len(to), nil
}

func (e endless) Fileread(*sftp.Request) (io.ReaderAt, error) { return e, nil }
func (e endless) ReadAt(p []byte, _ int64) (int, error)       { return len(p), nil }

type sized struct {
	falseInfo
	size int64
}

func (s sized) Size() int64 { return s.size }

func TestListingIsBounded(t *testing.T) {
	f := lyingFiles(t, sftp.Handlers{FileList: endless{}})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := f.list(ctx, "/d"); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("got %v", err)
	}
}

func TestFileSizeIsBounded(t *testing.T) {
	for name, size := range map[string]int64{"no size": 0, "some": 100 << 10, "more than there can be": math.MinInt64} {
		t.Run(name, func(t *testing.T) {
			f := lyingFiles(t, sftp.Handlers{FileList: endless{size}, FileGet: endless{size}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			dir := t.TempDir()
			err := f.CopyFrom(ctx, "/f", dir+"/f", CopyOptions{Progress: func(p Progress) {
				if p.Bytes > size+maxGrowth+1<<20 {
					cancel()
				}
			}})
			if code := agentbox.CodeOf(err); code != agentbox.Conflict && code != agentbox.Corrupt {
				t.Errorf("got %v", err)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// endlessTree has a thousand directories in each directory, some levels deep.
type endlessTree struct{ made int }

func (e *endlessTree) list(_ context.Context, from string) (all []fs.FileInfo, err error) {
	if strings.Count(from, "/") > 20 {
		return nil, nil
	}
	for range 1000 {
		all = append(all, falseInfo{"d", fs.ModeDir | 0o755})
	}
	return all, nil
}

func (e *endlessTree) mkdir(string, fs.FileInfo) error {
	if e.made++; e.made > 2<<20 {
		return errors.New("it does not end")
	}
	return nil
}
func (e *endlessTree) file(context.Context, string, string, fs.FileInfo) error { return nil }
func (e *endlessTree) link(string, string, fs.FileInfo) error                  { return nil }
func (e *endlessTree) setAttributes(string, fs.FileInfo) error                 { return nil }
func (e *endlessTree) label(_, to string) string                               { return to }

func TestTreeIsBounded(t *testing.T) {
	tr := transfer{ends: &endlessTree{}, meter: &meter{}}
	if err := tr.run(t.Context(), "/d", "d", falseInfo{"d", fs.ModeDir | 0o755}); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("got %v", err)
	}
}

// answersOf is a server that says the same whatever it is asked.
type answersOf struct {
	fakeChannel
	r io.Reader
}

func (a answersOf) Read(p []byte) (int, error)  { return a.r.Read(p) }
func (a answersOf) Write(p []byte) (int, error) { return len(p), nil }
func (a answersOf) Close() error                { return nil }

// packet is an SFTP packet with its length.
func packet(kind byte, fields ...any) []byte {
	body := []byte{kind}
	for _, f := range fields {
		switch f := f.(type) {
		case int:
			body = binary.BigEndian.AppendUint32(body, uint32(f))
		case string:
			body = append(binary.BigEndian.AppendUint32(body, uint32(len(f))), f...)
		}
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// asked is what a server that says this makes of a listing and a copy.
func asked(answers []byte) (entries []fs.FileInfo, err error) {
	version := packet(2, 3)
	f := &Files{guard: newGuard(answersOf{r: io.MultiReader(bytes.NewReader(version), bytes.NewReader(answers))}), stop: func() bool { return true }}
	if f.sftp, err = sftp.NewClientPipe(f.guard, f.guard); err != nil {
		return nil, err
	}
	defer f.Close()
	if entries, err = f.list(context.Background(), "/d"); err != nil {
		return nil, err
	}
	_, _, err = f.source("/d/..", true)
	return entries, err
}

// A server that answers some requests and then says nothing, or stops within an answer, is not
// waited for without end.
func TestAnswerDeadlines(t *testing.T) {
	open, handle := packet(3, 1, "/f"), packet(102, 1, "h")
	for name, c := range map[string]struct {
		said [][]byte
		owed bool
	}{
		"nothing":            {nil, true},
		"one of two answers": {[][]byte{handle}, true},
		"part of an answer":  {[][]byte{handle, handle[:3]}, true},
		"all but a byte":     {[][]byte{handle, handle[:len(handle)-1]}, true},
		"both":               {[][]byte{handle, handle}, false},
		"both in pieces":     {[][]byte{handle[:3], handle[3:], handle[:6], handle[6:]}, false},
	} {
		g := newGuard(answersOf{r: bytes.NewReader(bytes.Join(c.said, nil))})
		for _, request := range [][]byte{open[:4], open[4:], open} {
			if _, err := g.Write(request); err != nil {
				t.Fatal(err)
			}
		}
		for _, piece := range c.said {
			if _, err := io.ReadFull(g, make([]byte, len(piece))); err != nil {
				t.Fatal(err)
			}
		}
		if running := g.timer.Stop(); running != c.owed {
			t.Errorf("%s: the timer runs: %v", name, running)
		}
	}
}

func TestErrorsAreShort(t *testing.T) {
	_, err := asked(packet(101, 1, 4, strings.Repeat("no ", 50_000), "en"))
	if err == nil || len(err.Error()) > 2*maxComplaint {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func FuzzAnswers(f *testing.F) {
	handle := packet(102, 1, "h")
	f.Add(append(handle, packet(104, 2, 1, "a/../b", "long", 0)...))
	f.Add(append(handle, packet(104, 2, 1<<30, "a", "long", 0)...))
	f.Add(append(handle, packet(104, 2, 1, "", "", 1, 1<<31, 0)...))
	f.Add(append(handle, 0xff, 0xff, 0xff, 0xff, 104))
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, answers []byte) {
		entries, _ := asked(answers)
		for _, e := range entries {
			if validName(e.Name()) != nil || e.Size() < 0 {
				t.Errorf("%q of %d bytes", e.Name(), e.Size())
			}
		}
		var s packets // counts what the library reads, in pieces of any size
		whole := s.names(answers)
		s = packets{}
		pieces := int64(0)
		for _, b := range answers {
			pieces += s.names([]byte{b})
		}
		if whole != pieces || whole > int64(len(answers)) {
			t.Errorf("%d bytes of names, %d in pieces, of %d", whole, pieces, len(answers))
		}
	})
}
