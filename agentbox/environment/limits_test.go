package environment

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"agentbox/agentbox"
)

func archive(t *testing.T, files int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range files {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprint(i), Typeflag: tar.TypeReg, Size: 3}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, "abc")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestExportIsBounded(t *testing.T) {
	for _, c := range []struct {
		bound Limits
		data  []byte
		want  string
	}{
		{Limits{Bytes: 1 << 20, Files: 10}, archive(t, 10), ""},
		{Limits{Files: 9}, archive(t, 10), "more than 9 files"},
		{Limits{Files: 9}, bytes.Repeat([]byte("no archive"), 1000), ""},
		{Limits{Bytes: 1 << 20}, make([]byte, 1<<20+1), "more than 1 MiB"},
	} {
		counted, counting := countFiles(c.bound)
		_, err := io.Copy(io.MultiWriter(c.bound.writer(io.Discard), counted), bytes.NewReader(c.data))
		err = errors.Join(err, counting())
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c.bound, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || agentbox.CodeOf(err) != agentbox.Conflict):
			t.Errorf("%+v: %v, want %s", c.bound, err, c.want)
		}
	}
}
